/** The golden listings of restored archives, and the same made from a tree of nodes. */
import { hash } from 'node:crypto';
import { readBytes } from '../../src/read-at.ts';
import type { Directory, Node } from '../../src/tree/node.ts';
import { readGolden } from './golden.ts';

/** An entry of `expected/pxar-*.json`. */
export interface ListedEntry {
  readonly path_b64: string;
  /** f, d, l, p, s, c, b */
  readonly type: string;
  /** Permission bits, octal. */
  readonly mode: string;
  readonly uid: number;
  readonly gid: number;
  readonly mtime_ns: string;
  readonly nlink: number;
  readonly size?: number;
  readonly sha256?: string;
  /** Paths of all names of the file. */
  readonly hardlink_group?: readonly string[];
  readonly xattrs_b64?: Readonly<Record<string, string>>;
  readonly target_b64?: string;
  readonly rdev?: readonly [number, number];
}

export function expectedListing(file: string): readonly ListedEntry[] {
  const entries = JSON.parse(readGolden(`expected/${file}`).toString()) as (ListedEntry &
    Record<string, unknown>)[];
  return entries.map(({ path: _path, acl: _acl, target: _target, ...entry }) => entry);
}

const types: Readonly<Record<Node['kind'], string>> = {
  directory: 'd',
  file: 'f',
  symlink: 'l',
  fifo: 'p',
  socket: 's',
  char: 'c',
  block: 'b',
};

/** A whole tree in the form of the golden listings, in the order of paths as bytes. */
export async function listTree(root: Directory): Promise<ListedEntry[]> {
  const entries: ListedEntry[] = [];
  const names = new Map<number, string[]>();
  const visit = async (node: Node, path: Buffer): Promise<void> => {
    const entry = await describe(node, path);
    entries.push(entry);
    if (node.kind !== 'directory') {
      names.set(node.ino, [...(names.get(node.ino) ?? []), entry.path_b64]);
      return;
    }
    for (const listed of await node.list()) {
      const child = listed.node ?? (await node.lookup(listed.name));
      if (child === undefined || child.ino !== listed.ino || child.kind !== listed.kind) {
        throw new Error(`the listing and lookup of ${listed.name} differ`);
      }
      const childPath =
        path.length === 0 ? listed.name : Buffer.concat([path, Buffer.from('/'), listed.name]);
      await visit(child, childPath);
    }
  };
  await visit(root, Buffer.alloc(0));
  const inodes = new Map<string, readonly string[]>();
  for (const group of names.values()) for (const path of group) inodes.set(path, group.toSorted());
  const grouped = entries.map((entry) =>
    entry.nlink > 1 && entry.type === 'f'
      ? { ...entry, hardlink_group: inodes.get(entry.path_b64) ?? [] }
      : entry,
  );
  return sortByPath(grouped);
}

export function sortByPath(entries: readonly ListedEntry[]): ListedEntry[] {
  const path = (entry: ListedEntry): Buffer => Buffer.from(entry.path_b64, 'base64');
  return entries.toSorted((a, b) => Buffer.compare(path(a), path(b)));
}

async function describe(node: Node, path: Buffer): Promise<ListedEntry> {
  const { mode, uid, gid, mtime, nlink, size, blocks, rdev } = await node.attributes();
  const xattrs = (await node.xattrs?.()) ?? [];
  const entry = {
    path_b64: path.toString('base64'),
    type: types[node.kind],
    mode: (mode & 0o7777).toString(8),
    uid,
    gid,
    mtime_ns: String(BigInt(mtime.seconds) * 1_000_000_000n + BigInt(mtime.nanos)),
    nlink,
    ...(xattrs.length === 0 ? {} : { xattrs_b64: xattrsOf(xattrs) }),
  };
  switch (node.kind) {
    case 'file': {
      if (blocks !== Math.ceil(size / 512)) throw new Error(`${blocks} blocks of ${size} bytes`);
      await using content = await node.open();
      const bytes = await readBytes(content, 0, content.size + 1);
      return { ...entry, size, sha256: hash('sha256', bytes) };
    }
    case 'symlink': {
      const target = await node.target();
      if (target.length !== size) throw new Error('the size of a link is the length of its target');
      return { ...entry, target_b64: target.toString('base64') };
    }
    case 'block':
    case 'char':
      return { ...entry, rdev: [rdev?.major ?? -1, rdev?.minor ?? -1] };
    default:
      return entry;
  }
}

function xattrsOf(xattrs: readonly { readonly name: Buffer; readonly value: Buffer }[]) {
  const named = xattrs.map(({ name, value }) => [name.toString(), value.toString('base64')]);
  return Object.fromEntries(named.sort()) as Record<string, string>;
}
