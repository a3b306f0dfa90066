/**
 * A directory whose children come from one listing. The listing is asked for when it is needed, shared by all
 * who ask meanwhile, and asked again once it is older than its life. A child that is listed again stays the
 * same object, so that what it has opened stays open.
 */
import { unlessAborted } from '../abort.ts';
import type { Attributes, Directory, DirectoryEntry, Node } from './node.ts';

/** Children by name. Names of the port are bytes: the key is their latin1 form. */
export type Children = Map<string, Node>;

function nameKey(name: Uint8Array): string {
  return Buffer.from(name.buffer, name.byteOffset, name.byteLength).toString('latin1');
}

export abstract class ListedDirectory implements Directory {
  readonly kind = 'directory' as const;
  readonly ino: number;
  abstract readonly immutable: boolean;
  /** Milliseconds that a listing is taken for current. */
  readonly #life: number;
  #children: Children = new Map();
  #listedAt = Number.NEGATIVE_INFINITY;
  #listing: Promise<Children> | undefined;

  protected constructor(ino: number, lifeSeconds: number) {
    this.ino = ino;
    this.#life = lifeSeconds * 1000;
  }

  abstract attributes(signal?: AbortSignal): Promise<Attributes>;

  /** The children of now; `known` are those of the last listing, to be given again where they still are. */
  protected abstract load(known: Children): Promise<Children>;

  async lookup(name: Buffer, signal?: AbortSignal): Promise<Node | undefined> {
    return (await this.children(signal)).get(nameKey(name));
  }

  async list(signal?: AbortSignal): Promise<readonly DirectoryEntry[]> {
    const entries: DirectoryEntry[] = [];
    for (const [name, node] of await this.children(signal)) {
      const known = node.kind === 'directory' || node.kind === 'symlink';
      entries.push({
        name: Buffer.from(name, 'latin1'),
        kind: node.kind,
        ino: node.ino,
        ...(known && this.cheapAttributes ? { node } : {}),
      });
    }
    return entries;
  }

  /** Whether directories and links among the children know their attributes without I/O. */
  protected get cheapAttributes(): boolean {
    return true;
  }

  protected async children(signal?: AbortSignal): Promise<Children> {
    if (performance.now() - this.#listedAt < this.#life) return this.#children;
    this.#listing ??= this.#refresh();
    const listing = this.#listing;
    // Shared: who gives up leaves the others waiting for it.
    return await unlessAborted(listing, signal);
  }

  async #refresh(): Promise<Children> {
    try {
      this.#children = await this.load(this.#children);
      this.#listedAt = performance.now();
      return this.#children;
    } finally {
      this.#listing = undefined;
    }
  }
}
