/**
 * The nodes that the kernel knows by number. It counts every name it was given (lookups, listings with
 * attributes) and gives the counts back by FORGET; a node whose count is 0 leaves the table, so the table
 * is as large as the kernel's own cache and no larger.
 *
 * The number of a node is its inode number plus one. 1 is the root by the protocol, and an inode number
 * is stable and never 0: so a node keeps its number over FORGET and the next lookup.
 *
 * A kernel remembers files by the hundred thousand, most of them by one lookup: those take a place in one map.
 */
import type { Directory, Node } from '../../tree/node.ts';

const rootNodeid = 1;

export class InodeTable {
  readonly #root: Directory;
  readonly #nodes = new Map<number, Node>();
  /** Lookups of a node beyond the first. */
  readonly #furtherLookups = new Map<number, number>();
  /** Inode numbers of the directories that directories were found in. */
  readonly #parents = new Map<number, number>();

  constructor(root: Directory) {
    this.#root = root;
  }

  /** Undefined for a number that the kernel forgot or never had. */
  get(nodeid: number): Node | undefined {
    return nodeid === rootNodeid ? this.#root : this.#nodes.get(nodeid);
  }

  /** Inode number of the directory above a directory, for its `..`; the root is above itself. */
  parentIno(nodeid: number): number {
    return this.#parents.get(nodeid) ?? this.#root.ino;
  }

  /** Counts `node` as given to the kernel once more. A newer node of the same inode number replaces it. */
  remember(node: Node, parentIno: number): number {
    const { ino } = node;
    if (ino === this.#root.ino) return rootNodeid;
    const nodeid = ino + 1;
    const before = this.#nodes.size;
    this.#nodes.set(nodeid, node);
    if (this.#nodes.size === before) {
      this.#furtherLookups.set(nodeid, (this.#furtherLookups.get(nodeid) ?? 0) + 1);
    } else if (node.kind === 'directory') {
      this.#parents.set(nodeid, parentIno);
    }
    return nodeid;
  }

  forget(nodeid: number, lookups: number): void {
    const left = (this.#furtherLookups.get(nodeid) ?? 0) - lookups;
    if (left > 0) {
      this.#furtherLookups.set(nodeid, left);
      return;
    }
    this.#furtherLookups.delete(nodeid);
    if (left === 0) return;
    this.#nodes.delete(nodeid);
    this.#parents.delete(nodeid);
  }

  /** Nodes besides the root. */
  get size(): number {
    return this.#nodes.size;
  }
}
