/** A tree of the port `Node` in memory, for tests of what walks trees. */
import { PbsfsError } from '../../../src/errors.ts';
import type {
  Attributes,
  Directory,
  File,
  Node,
  OpenFile,
  Special,
  Symlink,
  Xattr,
} from '../../../src/tree/node.ts';

export interface MemoryOptions extends Partial<Omit<Attributes, 'size' | 'blocks'>> {
  readonly ino?: number;
  readonly xattrs?: Readonly<Record<string, Uint8Array | string>>;
}

let lastInode = 1;

function base(
  mode: number,
  size: number,
  { ino, xattrs = {}, ...given }: MemoryOptions,
): {
  ino: number;
  immutable: true;
  attributes: () => Promise<Attributes>;
  xattrs: () => Promise<Xattr[]>;
} {
  const attributes: Attributes = {
    uid: process.getuid?.() ?? 0,
    gid: process.getgid?.() ?? 0,
    nlink: 1,
    blocks: Math.ceil(size / 512),
    mtime: { seconds: 1_700_000_000, nanos: 123_456_789 },
    ...given,
    size,
    mode: (mode & 0o170000) | ((given.mode ?? mode) & 0o7777),
  };
  return {
    ino: ino ?? ++lastInode,
    immutable: true,
    attributes: async () => attributes,
    xattrs: async () =>
      Object.entries(xattrs).map(([name, value]) => ({
        name: Buffer.from(name),
        value: Buffer.from(value as string),
      })),
  };
}

type Named = readonly [name: string | Buffer, node: Node];

/** Children by name in order; an array also takes names that are no text, or none at all. */
export function directory(
  children: Readonly<Record<string, Node>> | readonly Named[],
  options: MemoryOptions = {},
): Directory {
  const list = (Array.isArray(children) ? children : Object.entries(children)) as readonly Named[];
  const entries = list.map(([name, node]) => ({
    name: Buffer.from(name as string),
    kind: node.kind,
    ino: node.ino,
    node,
  }));
  return {
    kind: 'directory',
    ...base(0o040755, 0, { nlink: 2, ...options }),
    lookup: async (name) => entries.find((entry) => entry.name.equals(name))?.node,
    list: async () => entries,
  };
}

export interface MemoryFileOptions extends MemoryOptions {
  /** Ranges that fail as damaged. */
  readonly damaged?: readonly (readonly [start: number, end: number])[];
  /** Told of each read. */
  readonly onRead?: (offset: number, length: number) => void | Promise<void>;
}

export function file(content: string | Uint8Array, options: MemoryFileOptions = {}): File {
  const { damaged = [], onRead, ...rest } = options;
  const bytes = Buffer.from(content as string);
  const open = async (): Promise<OpenFile> => ({
    size: bytes.length,
    dataSize: bytes.length,
    read: async (offset, length, signal) => {
      await onRead?.(offset, length);
      signal?.throwIfAborted();
      const end = Math.min(offset + length, bytes.length);
      const bad = damaged.find(([from, to]) => from < end && to > offset);
      if (bad !== undefined) {
        throw new PbsfsError('chunk-missing', 'chunk is missing', {
          context: { offset: bad[0], length: bad[1] - bad[0] },
        });
      }
      const slice = bytes.subarray(offset, end);
      return slice.length === 0 ? [] : [slice];
    },
    nextData: (offset) => (offset < bytes.length ? offset : undefined),
    nextHole: () => bytes.length,
    [Symbol.asyncDispose]: async () => {},
  });
  return { kind: 'file', ...base(0o100644, bytes.length, rest), open };
}

export function symlink(target: string | Buffer, options: MemoryOptions = {}): Symlink {
  const bytes = Buffer.from(target as string);
  return {
    kind: 'symlink',
    ...base(0o120777, bytes.length, options),
    target: async () => bytes,
  };
}

const typeBits = { block: 0o060644, char: 0o020644, fifo: 0o010644, socket: 0o140644 };

export function special(kind: Special['kind'], options: MemoryOptions = {}): Special {
  return { kind, ...base(typeBits[kind], 0, options) };
}
