/**
 * Writes pxar archives, format v1 and v2, for tests: an own reading of the format that shares no code with the
 * product, BigInt and all. It reproduces the golden archives byte for byte.
 */

export interface PxarMetadata {
  /** Permission bits. */
  readonly permissions?: number;
  readonly flags?: bigint;
  readonly uid?: number;
  readonly gid?: number;
  readonly mtime?: { readonly seconds: number; readonly nanos: number };
  /** Write the layout of the first clients: whole nanoseconds, nothing before 1970. */
  readonly legacyStat?: boolean;
  readonly xattrs?: readonly (readonly [name: string, value: Buffer])[];
  readonly acl?: PxarAclItems;
  readonly fcaps?: Buffer;
  readonly quotaProjectId?: number;
}

export interface PxarAclItems {
  readonly users?: readonly (readonly [id: number, permissions: number])[];
  readonly groups?: readonly (readonly [id: number, permissions: number])[];
  readonly groupObject?: number;
  /** user, group, other, mask; undefined is "not set". */
  readonly default?: readonly (number | undefined)[];
  readonly defaultUsers?: readonly (readonly [id: number, permissions: number])[];
  readonly defaultGroups?: readonly (readonly [id: number, permissions: number])[];
}

interface Named extends PxarMetadata {
  readonly name: Buffer;
}

export type PxarNode =
  | (Named & { readonly type: 'directory'; readonly children: readonly PxarNode[] })
  | (Named & { readonly type: 'file'; readonly content: Buffer })
  | (Named & { readonly type: 'symlink'; readonly target: Buffer })
  | (Named & { readonly type: 'block' | 'char'; readonly major: number; readonly minor: number })
  | (Named & { readonly type: 'fifo' | 'socket' })
  /** `target`: path from the root, of a file written before. */
  | { readonly type: 'hardlink'; readonly name: Buffer; readonly target: Buffer };

export interface EncodeOptions {
  readonly version: 1 | 2;
  readonly prelude?: Buffer;
  /** Bytes to put in front of each payload of a split archive: what reuse of chunks leaves behind. */
  readonly gap?: Buffer;
}

export interface EncodedPxar {
  readonly metadata: Buffer;
  /** Of a split archive. */
  readonly payload: Buffer | undefined;
  /** By path in latin1, the root being empty: where the FILENAME item is, and for a directory its table. */
  readonly places: ReadonlyMap<string, PxarPlace>;
}

interface PxarPlace {
  readonly position: number;
  /** Where the GOODBYE item starts. */
  readonly table?: number;
  /** One past the entry in the metadata stream. */
  readonly end: number;
}

const types = {
  version: 0x730f6c75df16a40dn,
  prelude: 0xe309d79d9f7b771bn,
  entry: 0xd5956474e588acefn,
  entryV1: 0x11da850a1c1cceffn,
  filename: 0x16701121063917b3n,
  symlink: 0x27f971e7dbf5dc5fn,
  hardlink: 0x51269c8422bd7275n,
  device: 0x9fc9e906586d5ce9n,
  xattr: 0x0dab0229b57dcd03n,
  aclUser: 0x2ce8540a457d55b8n,
  aclGroup: 0x136e3eceb04c03abn,
  aclGroupObject: 0x10868031e9582876n,
  aclDefault: 0xbbbb13415a6896f5n,
  aclDefaultUser: 0xc89357b40532cd1fn,
  aclDefaultGroup: 0xf90a8a5816038ffen,
  fcaps: 0x2da9dd9db5f7fb67n,
  quotaProject: 0xe07540e82f7d1cbbn,
  payload: 0x28147a1b0b7c1a25n,
  payloadRef: 0x419d3d6bc4ba977en,
  goodbye: 0x2fec4fa642d5731dn,
  goodbyeTail: 0xef5eed5b753e1555n,
  payloadStart: 0x834c68c2194a4ed2n,
  payloadTail: 0x6c72b78b984c81b5n,
};

const fileTypes = {
  directory: 0o040000,
  file: 0o100000,
  symlink: 0o120000,
  block: 0o060000,
  char: 0o020000,
  fifo: 0o010000,
  socket: 0o140000,
};

const mask64 = (1n << 64n) - 1n;
const notSet = mask64;

function u64(...values: readonly (bigint | number)[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  values.forEach((value, i) => {
    bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)), 8 * i);
  });
  return bytes;
}

/** SipHash-2-4 with the key of pxar. */
export function referenceSipHash(bytes: Uint8Array): bigint {
  const rotate = (x: bigint, n: bigint) => ((x << n) | (x >> (64n - n))) & mask64;
  const k0 = 0x83ac3f1cfbb450dbn;
  const k1 = 0xaa4f1b6879369fbdn;
  let v0 = k0 ^ 0x736f6d6570736575n;
  let v1 = k1 ^ 0x646f72616e646f6dn;
  let v2 = k0 ^ 0x6c7967656e657261n;
  let v3 = k1 ^ 0x7465646279746573n;
  const round = () => {
    v0 = (v0 + v1) & mask64;
    v1 = rotate(v1, 13n) ^ v0;
    v0 = rotate(v0, 32n);
    v2 = (v2 + v3) & mask64;
    v3 = rotate(v3, 16n) ^ v2;
    v0 = (v0 + v3) & mask64;
    v3 = rotate(v3, 21n) ^ v0;
    v2 = (v2 + v1) & mask64;
    v1 = rotate(v1, 17n) ^ v2;
    v2 = rotate(v2, 32n);
  };
  const padded = Buffer.alloc((Math.floor(bytes.length / 8) + 1) * 8);
  padded.set(bytes);
  padded[padded.length - 1] = bytes.length & 0xff;
  for (let at = 0; at < padded.length; at += 8) {
    const word = padded.readBigUInt64LE(at);
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
  v2 ^= 0xffn;
  for (let i = 0; i < 4; i++) round();
  return v0 ^ v1 ^ v2 ^ v3;
}

/** Order of sorted items 0…n−1 in the array form of a complete binary search tree. */
export function searchTreeOrder(n: number): number[] {
  const order = new Array<number>(n);
  let next = 0;
  const fill = (slot: number): void => {
    if (slot >= n) return;
    fill(2 * slot + 1);
    order[slot] = next++;
    fill(2 * slot + 2);
  };
  fill(0);
  return order;
}

interface Member {
  readonly hash: bigint;
  readonly position: number;
  readonly size: number;
}

/** Yields what has to be written first, and gets its result. */
type Steps = Generator<Steps, number, number>;

/** Recursion without the stack: trees in tests are deeper than it. */
function runDeep(first: Steps): void {
  const open = [first];
  let result = 0;
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    const next = top.next(result);
    if (next.done) {
      open.pop();
      result = next.value;
    } else open.push(next.value);
  }
}

class Encoder {
  readonly #options: EncodeOptions;
  readonly #metadata: Buffer[] = [];
  readonly #payload: Buffer[] = [];
  readonly places = new Map<string, PxarPlace>();
  #position = 0;
  #payloadPosition = 0;

  constructor(options: EncodeOptions) {
    this.#options = options;
    if (options.version === 1) return;
    this.#item(types.version, u64(2));
    if (options.prelude !== undefined) this.#item(types.prelude, options.prelude);
    this.#payloadItem(types.payloadStart);
  }

  root(node: PxarNode): EncodedPxar {
    if (node.type !== 'directory') throw new Error('the root is a directory');
    runDeep(this.#directory(node, '', 0, 0));
    if (this.#options.version === 2) this.#payloadItem(types.payloadTail);
    return {
      metadata: Buffer.concat(this.#metadata),
      payload: this.#options.version === 2 ? Buffer.concat(this.#payload) : undefined,
      places: this.places,
    };
  }

  #item(type: bigint, ...content: readonly Buffer[]): void {
    const size = 16 + content.reduce((sum, part) => sum + part.length, 0);
    this.#metadata.push(u64(type, size), ...content);
    this.#position += size;
  }

  #payloadItem(type: bigint, content: Buffer = Buffer.alloc(0)): void {
    this.#payload.push(u64(type, 16 + content.length), content);
    this.#payloadPosition += 16 + content.length;
  }

  *#directory(
    node: PxarNode & { readonly type: 'directory' },
    path: string,
    position: number,
    entryPosition: number,
  ): Steps {
    this.#stat(node);
    const members: Member[] = [];
    for (const child of node.children) {
      const start = this.#position;
      const extra = yield this.#member(child, path);
      const size = this.#position - start + extra;
      members.push({ hash: referenceSipHash(child.name), position: start, size });
    }
    const table = this.#position;
    members.sort((a, b) => (a.hash < b.hash ? -1 : a.hash > b.hash ? 1 : 0));
    const size = 16 + 24 * (members.length + 1);
    const rows = searchTreeOrder(members.length).map((i) => {
      const member = members[i];
      if (member === undefined) throw new Error('order is a permutation');
      return u64(member.hash, table - member.position, member.size);
    });
    rows.push(u64(types.goodbyeTail, table - entryPosition, size));
    this.#item(types.goodbye, Buffer.concat(rows));
    this.places.set(path, { position, table, end: this.#position });
    return 0;
  }

  /** Gives what the original writer adds to the size of a member. */
  *#member(node: PxarNode, parentPath: string): Steps {
    const name = node.name.toString('latin1');
    const path = parentPath === '' ? name : `${parentPath}/${name}`;
    const position = this.#position;
    let extra = 0;
    this.#item(types.filename, node.name, Buffer.alloc(1));
    switch (node.type) {
      case 'directory':
        yield this.#directory(node, path, position, this.#position);
        return 0;
      case 'hardlink': {
        const target = this.places.get(node.target.toString('latin1'));
        if (target === undefined) throw new Error(`no ${node.target}`);
        this.#item(types.hardlink, u64(position - target.position), node.target, Buffer.alloc(1));
        break;
      }
      default:
        this.#stat(node);
        extra = this.#content(node);
    }
    this.places.set(path, { position, end: this.#position });
    return extra;
  }

  /** Gives the same as `#member`. */
  #content(node: Exclude<PxarNode, { type: 'directory' | 'hardlink' }>): number {
    switch (node.type) {
      case 'symlink':
        this.#item(types.symlink, node.target, Buffer.alloc(1));
        return 0;
      case 'block':
      case 'char':
        this.#item(types.device, u64(node.major, node.minor));
        return 0;
      case 'file':
        return this.#file(node.content);
      default:
        return 0;
    }
  }

  #file(content: Buffer): number {
    if (this.#options.version === 1) {
      this.#item(types.payload, content);
      return 0;
    }
    const { gap } = this.#options;
    if (gap !== undefined) {
      this.#payload.push(gap);
      this.#payloadPosition += gap.length;
    }
    const reference = u64(this.#payloadPosition, content.length);
    this.#payloadItem(types.payload, content);
    this.#item(types.payloadRef, reference);
    return content.length;
  }

  #stat(node: Exclude<PxarNode, { type: 'hardlink' }>): void {
    const mode = fileTypes[node.type] | (node.permissions ?? 0o644);
    const { seconds, nanos } = node.mtime ?? { seconds: 1_700_000_000, nanos: 0 };
    const bytes = Buffer.concat([u64(mode, node.flags ?? 0), Buffer.alloc(8)]);
    bytes.writeUInt32LE(node.uid ?? 0, 16);
    bytes.writeUInt32LE(node.gid ?? 0, 20);
    if (node.legacyStat) {
      const time = u64(BigInt(seconds) * 1_000_000_000n + BigInt(nanos));
      this.#item(types.entryV1, bytes, time);
    } else {
      this.#item(types.entry, bytes, u64(seconds, nanos));
    }
    for (const [name, value] of node.xattrs ?? []) {
      this.#item(types.xattr, Buffer.from(`${name}\0`), value);
    }
    this.#acl(node.acl ?? {});
    if (node.fcaps !== undefined) this.#item(types.fcaps, node.fcaps);
    if (node.quotaProjectId !== undefined) this.#item(types.quotaProject, u64(node.quotaProjectId));
  }

  #acl(acl: PxarAclItems): void {
    for (const entry of acl.users ?? []) this.#item(types.aclUser, u64(...entry));
    for (const entry of acl.groups ?? []) this.#item(types.aclGroup, u64(...entry));
    if (acl.groupObject !== undefined) this.#item(types.aclGroupObject, u64(acl.groupObject));
    if (acl.default !== undefined) {
      this.#item(types.aclDefault, u64(...acl.default.map((value) => value ?? notSet)));
    }
    for (const entry of acl.defaultUsers ?? []) this.#item(types.aclDefaultUser, u64(...entry));
    for (const entry of acl.defaultGroups ?? []) this.#item(types.aclDefaultGroup, u64(...entry));
  }
}

/** Encodes a tree; members are written in the order given. */
export function encodePxar(root: PxarNode, options: EncodeOptions): EncodedPxar {
  return new Encoder(options).root(root);
}
