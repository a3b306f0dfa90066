/**
 * The nodes that the kernel knows by number. It counts every name it was given (lookups, listings with
 * attributes) and gives the counts back by FORGET; a node whose count is 0 leaves the table, so the table
 * is as large as the kernel's own cache and no larger.
 *
 * The number of a node is its inode number plus one. 1 is the root by the protocol, and an inode number
 * is stable and never 0: so a node keeps its number over FORGET and the next lookup.
 */
import type { Directory, Node } from '../../tree/node.ts';

const rootNodeid = 1;

export interface Inode {
  readonly node: Node;
  /** Inode number of the directory it was found in, for `..`. */
  readonly parentIno: number;
}

interface CountedInode {
  node: Node;
  readonly parentIno: number;
  lookups: number;
}

export class InodeTable {
  readonly #inodes = new Map<number, CountedInode>();
  readonly #root: Inode;

  constructor(root: Directory) {
    this.#root = { node: root, parentIno: root.ino };
  }

  /** Undefined for a number that the kernel forgot or never had. */
  get(nodeid: number): Inode | undefined {
    return nodeid === rootNodeid ? this.#root : this.#inodes.get(nodeid);
  }

  /** Counts `node` as given to the kernel once more. A newer node of the same inode number replaces it. */
  remember(node: Node, parentIno: number): number {
    if (node.ino === this.#root.node.ino) return rootNodeid;
    const nodeid = node.ino + 1;
    const known = this.#inodes.get(nodeid);
    if (known === undefined) {
      this.#inodes.set(nodeid, { node, parentIno, lookups: 1 });
    } else {
      known.node = node;
      known.lookups++;
    }
    return nodeid;
  }

  forget(nodeid: number, lookups: number): void {
    const inode = this.#inodes.get(nodeid);
    if (inode === undefined) return;
    inode.lookups -= lookups;
    if (inode.lookups <= 0) this.#inodes.delete(nodeid);
  }

  /** Nodes besides the root. */
  get size(): number {
    return this.#inodes.size;
  }
}
