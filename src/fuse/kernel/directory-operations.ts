/**
 * Operations on directories. An open directory keeps the listing that it gave, so that offsets stay good
 * for it whatever happens to the directory: 0 is `.`, 1 is `..`, 2 + i is entry i.
 *
 *   opendir            0 u32 flags, padding
 *   readdir, …plus     0 u64 handle, 8 u64 offset, 16 u32 size, …
 *   releasedir         0 u64 handle, …
 *
 * Source: `linux/fuse.h`.
 */
import type { DirectoryEntry } from '../../tree/node.ts';
import type { Entry } from '../wire/attributes.ts';
import { DirectoryReply } from '../wire/directory-reply.ts';
import { maxReadSize } from '../wire/init.ts';
import { cacheDirectory, encodeOpen, keepCache } from '../wire/reply.ts';
import type { Request } from '../wire/request.ts';
import { readU64 } from '../wire/u64.ts';
import {
  type Answer,
  attributesOf,
  done,
  introduce,
  nodeOf,
  type OpenDirectory,
  type Operation,
  type Served,
} from './operation.ts';

const dot = Buffer.from('.');
const dotDot = Buffer.from('..');
/** `.` and `..` come before the entries. */
const dots = 2;

export function opendir(served: Served, request: Request): Answer {
  const node = nodeOf(served, request);
  if (node === undefined) return 'ESTALE';
  if (node.kind !== 'directory') return 'ENOTDIR';
  const parentIno = served.inodes.parentIno(request.nodeid);
  const handle = served.directories.add({ directory: node, parentIno });
  return {
    body: [encodeOpen(handle, node.immutable ? keepCache | cacheDirectory : 0)],
    undo: () => void served.directories.take(handle),
  };
}

export function releasedir(served: Served, request: Request): Answer {
  served.directories.take(readU64(request.body, 0));
  return done;
}

/** Names, with numbers and types. */
export const readdir: Operation['run'] = (served, request, signal) =>
  list(served, request, signal, false);

/** The same with attributes where they cost nothing more, which saves a lookup per name. */
export const readdirplus: Operation['run'] = (served, request, signal) =>
  list(served, request, signal, true);

async function list(
  served: Served,
  request: Request,
  signal: AbortSignal,
  plus: boolean,
): Promise<Answer> {
  const open = served.directories.get(readU64(request.body, 0));
  const offset = readU64(request.body, 8);
  const size = request.body.readUInt32LE(16);
  if (open === undefined) return 'EBADF';
  const entries = await entriesOf(open, offset, signal);
  const reply = new DirectoryReply(Math.min(size, maxReadSize), plus);
  const introduced: number[] = [];
  const undo = (): void => {
    for (const nodeid of introduced) served.inodes.forget(nodeid, 1);
  };
  for (let position = offset; position < dots + entries.length; position++) {
    const { name, ino, kind, node } = entryAt(open, entries, position);
    if (!reply.fits(name)) {
      // An empty reply would be the end of the directory.
      if (position === offset) return 'EINVAL';
      break;
    }
    const entry = plus ? await entryOf(served, open, node, signal) : undefined;
    if (entry !== undefined) introduced.push(entry.nodeid);
    reply.add({ name, ino, kind, next: position + 1 }, entry);
  }
  return { body: [reply.bytes], undo };
}

/** A reader that starts again sees what is there now. */
async function entriesOf(
  open: OpenDirectory,
  offset: number,
  signal: AbortSignal,
): Promise<readonly DirectoryEntry[]> {
  const known = open.entries;
  if (known !== undefined && (offset > 0 || open.directory.immutable)) return known;
  const entries = await open.directory.list(signal);
  open.entries = entries;
  return entries;
}

function entryAt(
  open: OpenDirectory,
  entries: readonly DirectoryEntry[],
  position: number,
): DirectoryEntry {
  const entry = entries[position - dots];
  if (entry !== undefined) return entry;
  return position === 0
    ? { name: dot, ino: open.directory.ino, kind: 'directory' }
    : { name: dotDot, ino: open.parentIno, kind: 'directory' };
}

/** Undefined where the attributes would cost more, or fail: looking the name up then says how. */
async function entryOf(
  served: Served,
  open: OpenDirectory,
  node: DirectoryEntry['node'],
  signal: AbortSignal,
): Promise<Entry | undefined> {
  if (node === undefined) return undefined;
  try {
    const attributes = await attributesOf(served, node, signal);
    return introduce(served, open.directory, node, attributes);
  } catch {
    return undefined;
  }
}
