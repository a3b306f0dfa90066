/**
 * The port of the tree: a filesystem as directories, files, links and special nodes. It knows no FUSE and
 * no wire; the mount, `ls`, `cat` and the transfers all walk it. Names are bytes, since what was backed up
 * need not be UTF-8.
 *
 * Everything below a finished snapshot never changes (`immutable`), so a kernel may keep it for ever.
 */
import type { CachedChunkReader } from '../chunks/cached-chunk-reader.ts';
import type { SparseReadAt } from '../read-at.ts';

/** Nanosecond time without BigInt: `nanos` is 0…999,999,999 also before 1970. */
export interface Time {
  readonly seconds: number;
  readonly nanos: number;
}

export interface Attributes {
  /** Full `st_mode`: type and permission bits. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly nlink: number;
  /** Bytes. */
  readonly size: number;
  /** Units of 512 bytes that hold data: tools drop the content of a file that claims 0. */
  readonly blocks: number;
  readonly mtime: Time;
  /** chattr(1) flags in pxar's numbering; absent where there are none. */
  readonly flags?: number;
  /** Device number of a block or character special node. */
  readonly rdev?: { readonly major: number; readonly minor: number };
}

interface BaseNode {
  /** Stable across mounts, unique within one, below 2^53, never 0. */
  readonly ino: number;
  /** True for what can never change: everything below a finished snapshot. */
  readonly immutable: boolean;
  /** May do I/O (an index, a blob), never fetches chunks of content. */
  attributes(signal?: AbortSignal): Promise<Attributes>;
  /**
   * Extended attributes, in order. Absent where the node never has any.
   * @param wanted the only one that the caller looks for: others that cost more may then be left out.
   */
  xattrs?(signal?: AbortSignal, wanted?: Uint8Array): Promise<readonly Xattr[]>;
}

export interface Xattr {
  /** Full name such as `user.pbs.owner`. */
  readonly name: Buffer;
  readonly value: Buffer;
}

export interface Directory extends BaseNode {
  readonly kind: 'directory';
  /** The child of that name, or undefined where there is none. */
  lookup(name: Buffer, signal?: AbortSignal): Promise<Node | undefined>;
  /**
   * All children, each name once, in a stable order, without `.` and `..`. A listing of a directory that is
   * not `immutable` may differ from call to call.
   */
  list(signal?: AbortSignal): Promise<readonly DirectoryEntry[]>;
}

export type NodeKind = Node['kind'];

export interface DirectoryEntry {
  readonly name: Buffer;
  readonly kind: NodeKind;
  readonly ino: number;
  /**
   * The node, given where its attributes cost nothing more (`ls -l` then needs no further request for it).
   * Absent where they need I/O of their own: `lookup` gives it.
   */
  readonly node?: Node;
}

export interface File extends BaseNode {
  readonly kind: 'file';
  /** @throws PbsfsError `key-missing`, `key-wrong`, `corrupt`, … before any byte is read. */
  open(signal?: AbortSignal, options?: OpenOptions): Promise<OpenFile>;
}

export interface OpenOptions {
  /** False for one who knows what it will read and asks for it in time; default true. */
  readonly readAhead?: boolean;
}

/** One open handle. Disposing it stops what runs ahead for it. */
export interface OpenFile extends SparseReadAt, AsyncDisposable {
  /** The chunks of an archive that is shown as its bytes; absent for files that lie within one. */
  readonly chunks?: Pick<CachedChunkReader, 'index' | 'holds' | 'leave'>;
}

export interface Symlink extends BaseNode {
  readonly kind: 'symlink';
  target(signal?: AbortSignal): Promise<Buffer>;
}

/** A node without content; its device number is in its attributes. */
export interface Special extends BaseNode {
  readonly kind: 'block' | 'char' | 'fifo' | 'socket';
}

export type Node = Directory | File | Symlink | Special;
