/**
 * What an operation of the protocol is: a function from a request to an answer, over what a mount serves.
 * Outcomes that are ordinary (a name that is absent, an attribute that is not there) are answers; what is
 * thrown is a failure, which gets logged and becomes the errno of its code.
 */
import type { Attributes, Directory, DirectoryEntry, Node, OpenFile } from '../../tree/node.ts';
import type { Capacity } from '../driver.ts';
import type { ErrnoName } from '../errno.ts';
import type { Entry } from '../wire/attributes.ts';
import type { Request } from '../wire/request.ts';
import type { HandleTable } from './handle-table.ts';
import type { InodeTable } from './inode-table.ts';

/** Everything that the operations of one mount share. */
export interface Served {
  readonly inodes: InodeTable;
  readonly files: HandleTable<OpenFile>;
  readonly directories: HandleTable<OpenDirectory>;
  readonly capacity: (signal?: AbortSignal) => Promise<Capacity>;
  readonly mapAttributes: (attributes: Attributes) => Attributes;
  /** Seconds that names and attributes of what may change are kept. */
  readonly mutableSeconds: number;
}

/** A directory being read, with the listing that its offsets count in. */
export interface OpenDirectory {
  readonly directory: Directory;
  readonly parentIno: number;
  entries?: readonly DirectoryEntry[];
}

export interface Reply {
  readonly body: readonly Uint8Array[];
  /** Takes back what the reply hands out, when nobody waits for it any more. */
  readonly undo?: () => void | Promise<void>;
  /** Gives back what the body was made of, once it is written or given up. */
  readonly release?: () => void;
}

/** A reply, or the errno of an ordinary outcome. */
export type Answer = Reply | ErrnoName;

export interface Operation {
  readonly name: string;
  /** Bytes that the body has at least; a shorter one is answered EINVAL. */
  readonly bodySize: number;
  /** Reads `request` before its first `await`: the buffer is used again then. */
  readonly run: (served: Served, request: Request, signal: AbortSignal) => Answer | Promise<Answer>;
}

/** The answer without a body: success. */
export const done: Reply = { body: [] };

/** How long the kernel keeps what never changes: a year, for ever in the life of a mount. */
const immutableSeconds = 365 * 24 * 3600;

/** Seconds that the kernel may keep what belongs to a node. */
export function secondsOf(served: Served, node: Node): number {
  return node.immutable ? immutableSeconds : served.mutableSeconds;
}

/** Attributes as this mount shows them. */
export async function attributesOf(
  served: Served,
  node: Node,
  signal: AbortSignal,
): Promise<Attributes> {
  return served.mapAttributes(await node.attributes(signal));
}

/** Hands `node`, a child of `parent`, to the kernel: from now on it is known by the nodeid in the entry. */
export function introduce(
  served: Served,
  parent: Directory,
  node: Node,
  attributes: Attributes,
): Entry {
  return {
    nodeid: served.inodes.remember(node, parent.ino),
    ino: node.ino,
    attributes,
    nameSeconds: secondsOf(served, parent),
    attributeSeconds: secondsOf(served, node),
  };
}

/** The node of a request, as long as the kernel may know it. */
export function nodeOf(served: Served, request: Request): Node | undefined {
  return served.inodes.get(request.nodeid);
}
