/**
 * Operations on nodes: names, attributes, link targets, extended attributes.
 *
 *   lookup     0 name
 *   access     0 u32 mask, padding
 *   getxattr   0 u32 size, padding, 8 name
 *   listxattr  0 u32 size, padding
 *
 * Source: `linux/fuse.h`; for what is answered access(2), getxattr(2) and listxattr(2).
 */
import type { Xattr } from '../../tree/node.ts';
import { encodeAbsent, encodeEntry, encodeGetattr } from '../wire/attributes.ts';
import { encodeStatfs, encodeXattrSize, maxNameLength } from '../wire/reply.ts';
import { decodeName, type Request } from '../wire/request.ts';
import {
  type Answer,
  attributesOf,
  done,
  introduce,
  nodeOf,
  type Served,
  secondsOf,
} from './operation.ts';

/** Longest target that the kernel takes: `PATH_MAX` without the NUL. */
const maxTargetLength = 4095;
/** `W_OK` and `X_OK`. */
const maskWrite = 2;
const maskExecute = 1;
const anyExecute = 0o111;

export async function lookup(
  served: Served,
  request: Request,
  signal: AbortSignal,
): Promise<Answer> {
  const parent = nodeOf(served, request);
  const name = decodeName(request.body, 0);
  if (parent === undefined) return 'ESTALE';
  if (parent.kind !== 'directory') return 'ENOTDIR';
  if (name === undefined) return 'EINVAL';
  if (name.length > maxNameLength) return 'ENAMETOOLONG';
  const node = await parent.lookup(name, signal);
  if (node === undefined) return { body: [encodeAbsent(secondsOf(served, parent))] };
  const attributes = await attributesOf(served, node, signal);
  const entry = introduce(served, parent, node, attributes);
  return { body: [encodeEntry(entry)], undo: () => served.inodes.forget(entry.nodeid, 1) };
}

export async function getattr(
  served: Served,
  request: Request,
  signal: AbortSignal,
): Promise<Answer> {
  const node = nodeOf(served, request);
  if (node === undefined) return 'ESTALE';
  const attributes = await attributesOf(served, node, signal);
  return { body: [encodeGetattr(node.ino, attributes, secondsOf(served, node))] };
}

/** Asked only where the kernel does not check permission bits: then everybody who may enter may read. */
export async function access(
  served: Served,
  request: Request,
  signal: AbortSignal,
): Promise<Answer> {
  const mask = request.body.readUInt32LE(0);
  const node = nodeOf(served, request);
  if (node === undefined) return 'ESTALE';
  if ((mask & maskWrite) !== 0) return 'EROFS';
  if ((mask & maskExecute) === 0 || node.kind === 'directory') return done;
  const { mode } = await attributesOf(served, node, signal);
  return (mode & anyExecute) === 0 ? 'EACCES' : done;
}

export async function readlink(
  served: Served,
  request: Request,
  signal: AbortSignal,
): Promise<Answer> {
  const node = nodeOf(served, request);
  if (node === undefined) return 'ESTALE';
  if (node.kind !== 'symlink') return 'EINVAL';
  const target = await node.target(signal);
  return target.length > maxTargetLength ? 'ENAMETOOLONG' : { body: [target] };
}

export async function statfs(
  served: Served,
  _request: Request,
  signal: AbortSignal,
): Promise<Answer> {
  return { body: [encodeStatfs(await served.capacity(signal))] };
}

export async function getxattr(
  served: Served,
  request: Request,
  signal: AbortSignal,
): Promise<Answer> {
  const size = request.body.readUInt32LE(0);
  const name = decodeName(request.body, 8);
  if (name === undefined) return 'EINVAL';
  const xattrs = await xattrsOf(served, request, signal, name);
  if (xattrs === undefined) return 'ESTALE';
  const value = xattrs.find((xattr) => xattr.name.equals(name))?.value;
  return value === undefined ? 'ENODATA' : sized(value, size);
}

export async function listxattr(
  served: Served,
  request: Request,
  signal: AbortSignal,
): Promise<Answer> {
  const size = request.body.readUInt32LE(0);
  const xattrs = await xattrsOf(served, request, signal);
  if (xattrs === undefined) return 'ESTALE';
  const nul = Buffer.of(0);
  return sized(Buffer.concat(xattrs.flatMap((xattr) => [xattr.name, nul])), size);
}

/** Undefined for a nodeid that is not known, empty for a node without any. */
async function xattrsOf(
  served: Served,
  request: Request,
  signal: AbortSignal,
  wanted?: Buffer,
): Promise<readonly Xattr[] | undefined> {
  const node = nodeOf(served, request);
  if (node === undefined) return undefined;
  return (await node.xattrs?.(signal, wanted)) ?? [];
}

/** A caller that offers no room asks for the size. */
function sized(value: Buffer, room: number): Answer {
  if (room === 0) return { body: [encodeXattrSize(value.length)] };
  return value.length > room ? 'ERANGE' : { body: [value] };
}
