/**
 * Attributes of a node, and a name's answer that carries them.
 *
 *   attr     0 u64 ino, size, blocks, 24 u64 atime, mtime, ctime (seconds), 48 u32 the same (nanoseconds),
 *           60 u32 mode, nlink, uid, gid, 76 u32 rdev, blksize, flags                         88 bytes
 *   getattr  0 u64 seconds valid, 8 u32 nanoseconds, padding, 16 attr                        104 bytes
 *   entry    0 u64 nodeid, generation, 16 u64 seconds valid of name, of attributes,
 *           32 u32 nanoseconds of both, 40 attr                                              128 bytes
 *
 * Source: `fuse_attr`, `fuse_attr_out` and `fuse_entry_out` of `linux/fuse.h`.
 */
import type { Attributes } from '../../tree/node.ts';
import { blockSize } from './reply.ts';
import { writeU64 } from './u64.ts';

const attributesSize = 88;
const getattrSize = 16 + attributesSize;
export const entrySize = 40 + attributesSize;

const nanosPerSecond = 1_000_000_000;

/** What the kernel learns about a name. */
export interface Entry {
  readonly nodeid: number;
  readonly ino: number;
  readonly attributes: Attributes;
  /** Seconds that the name may be kept. */
  readonly nameSeconds: number;
  /** Seconds that the attributes may be kept. */
  readonly attributeSeconds: number;
}

/** `new_encode_dev` of Linux: 12 bits of major amid 20 bits of minor. */
export function encodeDevice({ major, minor }: { major: number; minor: number }): number {
  return ((minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xfff00) << 12)) >>> 0;
}

function writeAttributes(bytes: Buffer, start: number, ino: number, attributes: Attributes): void {
  const { mtime, rdev } = attributes;
  writeU64(bytes, start, ino);
  writeU64(bytes, start + 8, attributes.size);
  writeU64(bytes, start + 16, attributes.blocks);
  // A backup knows one time only; it stands for all three.
  for (let time = 0; time < 3; time++) {
    writeU64(bytes, start + 24 + 8 * time, mtime.seconds);
    bytes.writeUInt32LE(mtime.nanos, start + 48 + 4 * time);
  }
  bytes.writeUInt32LE(attributes.mode, start + 60);
  bytes.writeUInt32LE(attributes.nlink, start + 64);
  bytes.writeUInt32LE(attributes.uid, start + 68);
  bytes.writeUInt32LE(attributes.gid, start + 72);
  bytes.writeUInt32LE(rdev === undefined ? 0 : encodeDevice(rdev), start + 76);
  bytes.writeUInt32LE(blockSize, start + 80);
}

function nanosOf(seconds: number): number {
  return Math.floor((seconds % 1) * nanosPerSecond);
}

export function encodeGetattr(ino: number, attributes: Attributes, seconds: number): Buffer {
  const bytes = Buffer.alloc(getattrSize);
  writeU64(bytes, 0, Math.floor(seconds));
  bytes.writeUInt32LE(nanosOf(seconds), 8);
  writeAttributes(bytes, 16, ino, attributes);
  return bytes;
}

/** Writes `entrySize` bytes. The generation stays 0: a nodeid is never given to another node. */
export function writeEntry(bytes: Buffer, start: number, entry: Entry): void {
  writeU64(bytes, start, entry.nodeid);
  writeU64(bytes, start + 16, Math.floor(entry.nameSeconds));
  writeU64(bytes, start + 24, Math.floor(entry.attributeSeconds));
  bytes.writeUInt32LE(nanosOf(entry.nameSeconds), start + 32);
  bytes.writeUInt32LE(nanosOf(entry.attributeSeconds), start + 36);
  writeAttributes(bytes, start + 40, entry.ino, entry.attributes);
}

export function encodeEntry(entry: Entry): Buffer {
  const bytes = Buffer.alloc(entrySize);
  writeEntry(bytes, 0, entry);
  return bytes;
}

/** The answer for a name that does not exist, which the kernel may keep as well: nodeid 0. */
export function encodeAbsent(nameSeconds: number): Buffer {
  const bytes = Buffer.alloc(entrySize);
  writeU64(bytes, 16, Math.floor(nameSeconds));
  bytes.writeUInt32LE(nanosOf(nameSeconds), 32);
  return bytes;
}
