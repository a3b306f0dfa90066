/**
 * The head of a reply and the small bodies.
 *
 *   head     0 u32 length of the whole, 4 i32 negative errno or 0, 8 u64 unique
 *   open     0 u64 handle, 8 u32 flags, 12 u32 padding
 *   getxattr 0 u32 size, 4 u32 padding       (asked with size 0; else the value itself)
 *   lseek    0 u64 offset
 *   statfs   0 u64 blocks, 8 u64 free, 16 u64 available, 24 u64 files, 32 u64 free files,
 *            40 u32 block size, 44 u32 longest name, 48 u32 fragment size, then padding up to 80
 *
 * Source: `fuse_out_header` and the `*_out` structures of `linux/fuse.h`.
 */
import type { Capacity } from '../driver.ts';
import { writeU64 } from './u64.ts';

const replyHeaderSize = 16;

/** The kernel need not drop the pages of a file when it is opened again. */
export const keepCache = 1 << 1;
/** The kernel may keep the listing of a directory. */
export const cacheDirectory = 1 << 3;

/** Unit of `statfs` and hint for the size of reads; the page size everywhere but on a few machines. */
export const blockSize = 4096;
/** `NAME_MAX` of Linux, and of pxar. */
export const maxNameLength = 255;

export function encodeReplyHeader(unique: number, bodySize: number, errorNumber: number): Buffer {
  const bytes = Buffer.allocUnsafe(replyHeaderSize);
  bytes.writeUInt32LE(replyHeaderSize + bodySize, 0);
  bytes.writeInt32LE(-errorNumber, 4);
  writeU64(bytes, 8, unique);
  return bytes;
}

export function encodeOpen(handle: number, flags: number): Buffer {
  const bytes = Buffer.alloc(16);
  writeU64(bytes, 0, handle);
  bytes.writeUInt32LE(flags, 8);
  return bytes;
}

export function encodeXattrSize(size: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(size, 0);
  return bytes;
}

export function encodeOffset(offset: number): Buffer {
  const bytes = Buffer.alloc(8);
  writeU64(bytes, 0, offset);
  return bytes;
}

/** A total of 0 would make `df` leave the mount out, so there is at least one block. */
export function encodeStatfs(capacity: Capacity): Buffer {
  const bytes = Buffer.alloc(80);
  const blocks = (size: number): number => Math.max(0, Math.floor(size / blockSize));
  writeU64(bytes, 0, Math.max(1, blocks(capacity.total)));
  writeU64(bytes, 8, blocks(capacity.total - capacity.used));
  writeU64(bytes, 16, blocks(capacity.available));
  bytes.writeUInt32LE(blockSize, 40);
  bytes.writeUInt32LE(maxNameLength, 44);
  bytes.writeUInt32LE(blockSize, 48);
  return bytes;
}
