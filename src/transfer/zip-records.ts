/**
 * The records of a zip archive. Little-endian.
 *
 *   local header     "PK" 3 4, version, flags, method, time, date (2 each), CRC, sizes (4 each), lengths of name and
 *                    extra (2 each), name, extra
 *   data descriptor  "PK" 7 8, CRC (4), sizes (4 each, 8 in zip64): behind content that was streamed
 *   central header   "PK" 1 2, made by (2), as in the local header up to the lengths, comment, disk, internal (2 each),
 *                    external attributes, offset (4 each), name, extra
 *   end              "PK" 5 6, disks, entries (2 each), size and offset of the central headers (4 each), comment (2)
 *   end in zip64     "PK" 6 6 and "PK" 6 7 in front of it, where its numbers do not fit
 *
 * Sizes are the compressed and then the plain one. Extra fields: 1 what does not fit into 4 bytes, `UT` time in
 * seconds, `ux` owner and group. Source: PKWARE APPNOTE 6.3; Info-ZIP `proginfo/extrafld.txt`.
 */
import { isUtf8 } from 'node:buffer';
import type { Attributes, Time } from '../tree/node.ts';

export interface ZipEntry {
  /** A directory ends in a slash. */
  readonly path: Buffer;
  readonly attributes: Attributes;
  readonly isDeflated: boolean;
  /** CRC and compressed size are known behind the content only. */
  readonly isStreamed: boolean;
  readonly crc: number;
  readonly compressedSize: number;
  readonly size: number;
  /** Where its local header starts. */
  readonly offset: number;
}

/** In 4 and 2 bytes: "see zip64". */
const max32 = 0xffff_ffff;
const max16 = 0xffff;
/** Deflate makes what it cannot compress longer by 5 bytes in 16 KiB, so streamed content needs some room. */
const maxStreamed = 0xfff0_0000;

const plainVersion = 20;
const zip64Version = 45;
/** Unix; version of the specification. */
const madeBy = (3 << 8) | 63;
const streamedFlag = 1 << 3;
const utf8Flag = 1 << 11;
const deflateMethod = 8;
const dosDirectory = 0x10;

function u16(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(2 * values.length);
  for (const [i, value] of values.entries()) bytes.writeUInt16LE(value, 2 * i);
  return bytes;
}

function u32(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [i, value] of values.entries()) bytes.writeUInt32LE(value, 4 * i);
  return bytes;
}

function u64(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  for (const [i, value] of values.entries()) bytes.writeBigUInt64LE(BigInt(value), 8 * i);
  return bytes;
}

function signature(first: number, second: number): Buffer {
  return Buffer.from([0x50, 0x4b, first, second]);
}

function isLarge({ size, compressedSize, isStreamed }: ZipEntry): boolean {
  return Math.max(size, compressedSize) >= (isStreamed ? maxStreamed : max32);
}

/** What local and central headers share, from the version to the CRC. */
function commonFields(entry: ZipEntry, isZip64: boolean, crc: number): Buffer {
  const isPlain = entry.path.every((byte) => byte < 0x80);
  const flags =
    (entry.isStreamed ? streamedFlag : 0) | (!isPlain && isUtf8(entry.path) ? utf8Flag : 0);
  const { time, date } = dosTime(entry.attributes.mtime);
  const method = entry.isDeflated ? deflateMethod : 0;
  const version = isZip64 ? zip64Version : plainVersion;
  return Buffer.concat([u16(version, flags, method, time, date), u32(crc)]);
}

export function encodeLocalHeader(entry: ZipEntry): Buffer {
  const { path, isStreamed } = entry;
  const isZip64 = isLarge(entry);
  const { crc, compressedSize, size } = isStreamed ? { crc: 0, compressedSize: 0, size: 0 } : entry;
  const extra = Buffer.concat([
    ...(isZip64 ? [u16(1, 16), u64(size, compressedSize)] : []),
    encodeUnixFields(entry.attributes),
  ]);
  return Buffer.concat([
    signature(3, 4),
    commonFields(entry, isZip64, crc),
    isZip64 ? u32(max32, max32) : u32(compressedSize, size),
    u16(path.length, extra.length),
    path,
    extra,
  ]);
}

export function encodeDataDescriptor(entry: ZipEntry): Buffer {
  const { crc, compressedSize, size } = entry;
  const sizes = isLarge(entry) ? u64(compressedSize, size) : u32(compressedSize, size);
  return Buffer.concat([signature(7, 8), u32(crc), sizes]);
}

export function encodeCentralHeader(entry: ZipEntry): Buffer {
  const { path, attributes, crc, compressedSize, size, offset } = entry;
  const isZip64 = isLarge(entry) || offset >= max32;
  const extra = Buffer.concat([
    ...(isZip64 ? [u16(1, 24), u64(size, compressedSize, offset)] : []),
    encodeUnixFields(attributes),
  ]);
  const isDirectory = path.at(-1) === 0x2f;
  const external = attributes.mode * 0x1_0000 + (isDirectory ? dosDirectory : 0);
  return Buffer.concat([
    signature(1, 2),
    u16(madeBy),
    commonFields(entry, isZip64, crc),
    isZip64 ? u32(max32, max32) : u32(compressedSize, size),
    u16(path.length, extra.length, 0, 0, 0),
    u32(external, isZip64 ? max32 : offset),
    path,
    extra,
  ]);
}

export interface ZipEnd {
  readonly entries: number;
  /** Of the central headers. */
  readonly size: number;
  readonly offset: number;
}

export function encodeEnd({ entries, size, offset }: ZipEnd): Buffer {
  const isZip64 = entries >= max16 || size >= max32 || offset >= max32;
  const count = Math.min(entries, max16);
  return Buffer.concat([
    ...(isZip64 ? [encodeZip64End({ entries, size, offset })] : []),
    signature(5, 6),
    u16(0, 0, count, count),
    u32(Math.min(size, max32), Math.min(offset, max32)),
    u16(0),
  ]);
}

/** The record, and the locator that tells where it is. */
function encodeZip64End({ entries, size, offset }: ZipEnd): Buffer {
  const record = Buffer.concat([
    u16(madeBy, zip64Version),
    u32(0, 0),
    u64(entries, entries, size, offset),
  ]);
  return Buffer.concat([
    signature(6, 6),
    u64(record.length),
    record,
    signature(6, 7),
    u32(0),
    u64(offset + size),
    u32(1),
  ]);
}

/** Time, where it fits, and owner. */
function encodeUnixFields({ mtime, uid, gid }: Attributes): Buffer {
  const fits = mtime.seconds >= -(2 ** 31) && mtime.seconds < 2 ** 31;
  const hasMtime = 1;
  return Buffer.concat([
    ...(fits ? [Buffer.from('UT'), u16(5), Buffer.from([hasMtime]), u32(mtime.seconds >>> 0)] : []),
    Buffer.from('ux'),
    u16(11),
    Buffer.from([1, 4]),
    u32(uid),
    Buffer.from([4]),
    u32(gid),
  ]);
}

/** Local time in steps of two seconds, 1980 to 2107. */
function dosTime({ seconds }: Time): { time: number; date: number } {
  const given = new Date(seconds * 1000);
  const year = given.getFullYear();
  if (!(year >= 1980)) return { time: 0, date: (1 << 5) | 1 };
  if (year > 2107) return { time: 0xbf7d, date: 0xff9f };
  return {
    time: (given.getHours() << 11) | (given.getMinutes() << 5) | (given.getSeconds() >> 1),
    date: ((year - 1980) << 9) | ((given.getMonth() + 1) << 5) | given.getDate(),
  };
}
