/** A tree with everything that a driver must get right, and with nodes that fail or hang. */
import { type ErrorCode, PbsfsError } from '../../src/errors.ts';
import type {
  Attributes,
  Directory,
  DirectoryEntry,
  File,
  Node,
  OpenFile,
  Special,
  Symlink,
  Time,
  Xattr,
} from '../../src/tree/node.ts';

/** What tests look at from outside. */
export interface Counters {
  opened: number;
  closed: number;
  /** Reads and lookups that were told to stop. */
  aborted: number;
  lists: number;
  lookups: number;
  reads: number;
}

export interface MountTree {
  readonly root: Directory;
  readonly counters: Counters;
  /** Adds a file `new-N` to the directory `changing`. */
  grow(): void;
}

interface NodeOptions {
  readonly mode?: number;
  readonly mtime?: Time;
  readonly uid?: number;
  readonly gid?: number;
  readonly nlink?: number;
  readonly ino?: number;
  readonly xattrs?: readonly Xattr[];
}

interface FileOptions extends NodeOptions {
  readonly content?: Uint8Array;
  readonly size?: number;
  /** Ranges with data, as [start, end); default: all. */
  readonly data?: readonly (readonly [number, number])[];
  readonly read?: (offset: number, length: number, signal?: AbortSignal) => Promise<Uint8Array[]>;
}

type Children = readonly (readonly [Buffer | string, Node])[];

const defaultTime: Time = { seconds: 1_700_000_000, nanos: 123_456_789 };
const typeBits = {
  file: 0o100000,
  directory: 0o040000,
  symlink: 0o120000,
  block: 0o060000,
  char: 0o020000,
  fifo: 0o010000,
  socket: 0o140000,
};

/** Builds nodes that share counters and a sequence of inode numbers, from 1. */
export class TreeBuilder {
  readonly counters: Counters = {
    opened: 0,
    closed: 0,
    aborted: 0,
    lists: 0,
    lookups: 0,
    reads: 0,
  };
  #lastIno = 0;

  #base(kind: Node['kind'], size: number, options: NodeOptions, immutable = true) {
    this.#lastIno++;
    const attributes: Attributes = {
      mode: typeBits[kind] | (options.mode ?? (kind === 'directory' ? 0o755 : 0o644)),
      uid: options.uid ?? 1000,
      gid: options.gid ?? 1001,
      nlink: options.nlink ?? (kind === 'directory' ? 2 : 1),
      size,
      blocks: Math.ceil(size / 512),
      mtime: options.mtime ?? defaultTime,
    };
    const { xattrs } = options;
    return {
      ino: options.ino ?? this.#lastIno,
      immutable,
      attributes: async () => attributes,
      ...(xattrs === undefined ? {} : { xattrs: async () => xattrs }),
    };
  }

  file(content: Uint8Array | string, options: NodeOptions = {}): File {
    return this.anyFile({ ...options, content: Buffer.from(content) });
  }

  anyFile(options: FileOptions): File {
    const content = options.content ?? Buffer.alloc(0);
    const size = options.size ?? content.length;
    const data = options.data ?? [[0, size]];
    const { counters } = this;
    return {
      ...this.#base('file', size, options),
      kind: 'file',
      open: async (): Promise<OpenFile> => {
        counters.opened++;
        return {
          size,
          read: async (offset, length, signal) => {
            counters.reads++;
            if (options.read !== undefined) return options.read(offset, length, signal);
            return slicesOf(content.subarray(offset, offset + length));
          },
          nextData: (offset) => {
            const range = data.find(([, end]) => end > offset);
            return range === undefined ? undefined : Math.max(offset, range[0]);
          },
          nextHole: (offset) => {
            const range = data.find(([start, end]) => start <= offset && offset < end);
            return range === undefined ? offset : range[1];
          },
          dataSize: data.reduce((sum, [start, end]) => sum + end - start, 0),
          [Symbol.asyncDispose]: async () => {
            counters.closed++;
          },
        };
      },
    };
  }

  symlink(target: string): Symlink {
    return {
      ...this.#base('symlink', target.length, { mode: 0o777 }),
      kind: 'symlink',
      target: async () => Buffer.from(target),
    };
  }

  special(kind: Special['kind'], major?: number, minor?: number): Special {
    const base = this.#base(kind, 0, { mode: 0o600 });
    if (major === undefined || minor === undefined) return { ...base, kind };
    return {
      ...base,
      kind,
      attributes: async () => ({ ...(await base.attributes()), rdev: { major, minor } }),
    };
  }

  /** @param bare entries without their nodes, so that each costs a lookup. */
  directory(
    children: () => Children,
    { immutable = true, bare = false }: { immutable?: boolean; bare?: boolean } = {},
    options: NodeOptions = {},
  ): Directory {
    const { counters } = this;
    let byName: ReadonlyMap<string, Node> | undefined;
    return {
      ...this.#base('directory', 0, options, immutable),
      kind: 'directory',
      lookup: async (name) => {
        counters.lookups++;
        if (byName === undefined || !immutable) byName = mapByName(children());
        return byName.get(name.toString('hex'));
      },
      list: async () => {
        counters.lists++;
        return children().map(([name, node]): DirectoryEntry => {
          const entry = { name: Buffer.from(name), kind: node.kind, ino: node.ino };
          return bare ? entry : { ...entry, node };
        });
      },
    };
  }

  /** A file that waits until it is told to stop; a deaf one does not even listen. */
  hanging(deaf: boolean): File {
    return this.anyFile({ size: 1 << 20, read: (_, __, signal) => this.hang(signal, deaf) });
  }

  /** A directory in which looking a name up hangs. */
  hangingDirectory(): Directory {
    return { ...this.directory(() => []), lookup: (_, signal) => this.hang(signal, false) };
  }

  hang(signal: AbortSignal | undefined, deaf: boolean): Promise<never> {
    return new Promise((_, reject) => {
      signal?.addEventListener('abort', () => {
        this.counters.aborted++;
        if (!deaf) reject(new PbsfsError('aborted', 'interrupted'));
      });
    });
  }
}

function mapByName(children: Children): ReadonlyMap<string, Node> {
  return new Map(children.map(([name, node]) => [Buffer.from(name).toString('hex'), node]));
}

/** In uneven pieces, as cached chunks give them. */
function slicesOf(bytes: Uint8Array): Uint8Array[] {
  const slices: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += 300_001) slices.push(bytes.subarray(at, at + 300_001));
  return slices;
}

/** The same bytes on every call, with no pattern that survives a shift. */
export function noise(length: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(length);
  let state = seed;
  for (let at = 0; at + 4 <= length; at += 4) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    bytes.writeUInt32LE(state >>> 0, at);
  }
  return bytes;
}

export const noiseSize = 12 * (1 << 20) + 512;
let noiseContent: Buffer | undefined;

/** Content of `noise.img`. */
export function noiseImage(): Buffer {
  noiseContent ??= noise(noiseSize);
  return noiseContent;
}

export const sparseSize = 16 << 20;
/** Where the sparse file has data. */
export const sparseData = [
  [0, 4096],
  [8 << 20, (8 << 20) + 4096],
] as const;
/** Where the damaged file cannot be read. */
export const damagedRange = [512 << 10, (512 << 10) + 4096] as const;
export const damagedSize = 1 << 20;
export const manyNames = 5000;
export const bareNames = 300;

export const oddNames: readonly Buffer[] = [
  Buffer.from([0x66, 0xff, 0xfe, 0x80]),
  Buffer.from('new\nline'),
  Buffer.from('back\\slash'),
  Buffer.from('-dash'),
  Buffer.from('space at end '),
  Buffer.from('\u{1f600}'),
  Buffer.from('e\u0301'),
  Buffer.from('\u00e9'),
  Buffer.alloc(255, 'x'),
];

/** An access ACL `u::rw- u:1234:r-- g::r-- m::r-- o::r--` as Linux encodes it, version 2. */
const accessAcl = Buffer.from(
  '02000000' +
    '01000600ffffffff' +
    '02000400d2040000' +
    '04000400ffffffff' +
    '10000400ffffffff' +
    '20000400ffffffff',
  'hex',
);

export const xattrsOfFile: readonly Xattr[] = [
  { name: Buffer.from('user.comment'), value: Buffer.from('hello') },
  { name: Buffer.from('user.empty'), value: Buffer.alloc(0) },
  { name: Buffer.from('user.big'), value: noise(60_000) },
  { name: Buffer.from('system.posix_acl_access'), value: accessAcl },
];

export const failingCodes: readonly ErrorCode[] = [
  'corrupt',
  'chunk-missing',
  'stale',
  'key-missing',
  'key-wrong',
  'access-denied',
  'unreachable',
  'timeout',
  'failed',
];

function errorsDirectory(builder: TreeBuilder): Directory {
  const children = failingCodes.map((code): [string, Node] => [
    code,
    builder.anyFile({
      size: 10,
      read: async () => {
        throw new PbsfsError(code, `made to fail with ${code}`);
      },
    }),
  ]);
  return builder.directory(() => children);
}

function damagedFile(builder: TreeBuilder): File {
  const content = noise(damagedSize);
  const [start, end] = damagedRange;
  return builder.anyFile({
    size: damagedSize,
    read: async (offset, length) => {
      if (offset < end && offset + length > start) {
        throw new PbsfsError('corrupt', 'digest does not match', {
          context: { path: 'damaged', offset, length, digest: 'ab'.repeat(32) },
        });
      }
      return [content.subarray(offset, offset + length)];
    },
  });
}

function smallFiles(builder: TreeBuilder, count: number): Children {
  return Array.from({ length: count }, (_, index) => [`file-${index}`, builder.file('x')] as const);
}

/** The tree of the conformance suite. The inode number of its root is not 1, that of a child is. */
export function mountTree(): MountTree {
  const builder = new TreeBuilder();
  const grown: [string, Node][] = [];
  const sparse = Buffer.alloc(sparseSize);
  for (const [start, end] of sparseData) noise(end - start, start + 1).copy(sparse, start);
  const linked = builder.file('linked', { nlink: 2 });
  const many = smallFiles(builder, manyNames);
  const bare = smallFiles(builder, bareNames);
  const odd = oddNames.map((name) => [name, builder.file(name)] as const);
  const children: Children = [
    ['hello.txt', builder.file('hello, world\n')],
    ['empty', builder.file('')],
    ['before-1970', builder.file('x', { mtime: { seconds: -2, nanos: 500_000_000 } })],
    ['after-2038', builder.file('x', { mtime: { seconds: 4_102_444_800, nanos: 1 } })],
    ['private', builder.file('secret', { mode: 0o600, uid: 4321 })],
    ['link', builder.symlink('hello.txt')],
    ['dangling', builder.symlink('/nowhere/at all')],
    ['fifo', builder.special('fifo')],
    ['socket', builder.special('socket')],
    ['null', builder.special('char', 1, 3)],
    ['disk', builder.special('block', 259, 70_000)],
    ['hard-a', linked],
    ['hard-b', linked],
    ['xattrs', builder.file('x', { xattrs: xattrsOfFile })],
    ['noise.img', builder.anyFile({ content: noiseImage() })],
    ['sparse.img', builder.anyFile({ content: sparse, data: sparseData })],
    ['damaged.img', damagedFile(builder)],
    ['hanging', builder.hanging(false)],
    ['deaf', builder.hanging(true)],
    ['hanging-directory', builder.hangingDirectory()],
    ['many', builder.directory(() => many)],
    ['bare', builder.directory(() => bare, { bare: true })],
    ['odd', builder.directory(() => odd)],
    ['errors', errorsDirectory(builder)],
    ['changing', builder.directory(() => grown, { immutable: false })],
  ];
  return {
    root: builder.directory(() => children, { immutable: false }, { ino: 1_000_001 }),
    counters: builder.counters,
    grow: () => {
      grown.push([`new-${grown.length}`, builder.file('x')]);
    },
  };
}
