/**
 * Operations on files.
 *
 *   open     0 u32 flags, 4 u32 open flags
 *   read     0 u64 handle, 8 u64 offset, 16 u32 size, then what only writers mind
 *   lseek    0 u64 handle, 8 u64 offset, 16 u32 whence, padding
 *   release  0 u64 handle, then flags
 *
 * Source: `linux/fuse.h`; for holes lseek(2).
 */
import { PbsfsError } from '../../errors.ts';
import { borrow } from '../../read-at.ts';
import type { OpenFile } from '../../tree/node.ts';
import { maxReadSize } from '../wire/init.ts';
import { encodeOffset, encodeOpen, keepCache } from '../wire/reply.ts';
import type { Request } from '../wire/request.ts';
import { readU64 } from '../wire/u64.ts';
import { type Answer, done, nodeOf, type Served } from './operation.ts';

/** `O_ACCMODE`: the bits of open(2)'s flags that tell reading (0) from writing. */
const accessMode = 0o3;
const seekData = 3;
const seekHole = 4;
/** Below `IOV_MAX` (1024): a longer list would be written in parts, and a reply must be one write. */
const maxSlices = 1000;

export async function open(served: Served, request: Request, signal: AbortSignal): Promise<Answer> {
  const flags = request.body.readUInt32LE(0);
  const node = nodeOf(served, request);
  if (node === undefined) return 'ESTALE';
  if (node.kind !== 'file') return node.kind === 'directory' ? 'EISDIR' : 'ENXIO';
  if ((flags & accessMode) !== 0) return 'EROFS';
  const file = await node.open(signal);
  const handle = served.files.add(file);
  return {
    body: [encodeOpen(handle, node.immutable ? keepCache : 0)],
    undo: () => closeFile(served, handle),
  };
}

export async function release(served: Served, request: Request): Promise<Answer> {
  await closeFile(served, readU64(request.body, 0));
  return done;
}

async function closeFile(served: Served, handle: number): Promise<void> {
  await served.files.take(handle)?.[Symbol.asyncDispose]();
}

export async function read(served: Served, request: Request, signal: AbortSignal): Promise<Answer> {
  const file = served.files.get(readU64(request.body, 0));
  const offset = readU64(request.body, 8);
  const size = request.body.readUInt32LE(16);
  if (file === undefined) return 'EBADF';
  if (size > maxReadSize) return 'EINVAL';
  if (offset >= file.size) return done;
  const loan = await borrow(file, offset, size, signal);
  const { slices } = loan;
  checkLength(slices, file, offset, size);
  return {
    body: slices.length > maxSlices ? [Buffer.concat(slices)] : slices,
    release: () => loan[Symbol.dispose](),
  };
}

/** The kernel takes a short reply for the end of the file and shows zeros behind it. */
function checkLength(
  slices: readonly Uint8Array[],
  file: OpenFile,
  offset: number,
  size: number,
): void {
  let length = 0;
  for (const slice of slices) length += slice.length;
  const expected = Math.min(size, file.size - offset);
  if (length !== expected) {
    throw new PbsfsError('bug', `a read gave ${length} of ${expected} bytes`, {
      context: { offset },
    });
  }
}

export function lseek(served: Served, request: Request): Answer {
  const file = served.files.get(readU64(request.body, 0));
  const offset = readU64(request.body, 8);
  const whence = request.body.readUInt32LE(16);
  if (file === undefined) return 'EBADF';
  if (whence !== seekData && whence !== seekHole) return 'EINVAL';
  if (offset >= file.size) return 'ENXIO';
  const found = whence === seekData ? file.nextData(offset) : file.nextHole(offset);
  return found === undefined ? 'ENXIO' : { body: [encodeOffset(found)] };
}
