/**
 * libfuse 2 asks by path. This walks paths from the root and remembers the nodes on the way: names below
 * what never changes for as long as there is room, others for a short time.
 */
import type { Node } from '../../tree/node.ts';

/** Bound of memory: a node is small, its path is the larger part. */
const maxRemembered = 4096;

interface Remembered {
  readonly node: Node;
  /** Milliseconds. */
  readonly until: number;
}

export class PathResolver {
  readonly #root: Node;
  readonly #mutableMilliseconds: number;
  readonly #remembered = new Map<string, Remembered>();

  constructor(root: Node, mutableSeconds: number) {
    this.#root = root;
    this.#mutableMilliseconds = mutableSeconds * 1000;
  }

  /** The node at an absolute path, or undefined where there is none. */
  async resolve(path: string): Promise<Node | undefined> {
    if (path === '/') return this.#root;
    const known = this.#remembered.get(path);
    if (known !== undefined && known.until > performance.now()) return known.node;
    const split = path.lastIndexOf('/');
    const parent = await this.resolve(split === 0 ? '/' : path.slice(0, split));
    if (parent?.kind !== 'directory') return undefined;
    const node = await parent.lookup(Buffer.from(path.slice(split + 1)));
    this.#remembered.delete(path);
    if (node !== undefined) this.#remember(path, node, parent.immutable);
    return node;
  }

  #remember(path: string, node: Node, forEver: boolean): void {
    const until = forEver
      ? Number.POSITIVE_INFINITY
      : performance.now() + this.#mutableMilliseconds;
    this.#remembered.set(path, { node, until });
    const [oldest] = this.#remembered.keys();
    if (this.#remembered.size > maxRemembered && oldest !== undefined) {
      this.#remembered.delete(oldest);
    }
  }
}
