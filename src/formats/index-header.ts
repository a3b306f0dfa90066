/**
 * The first 4096 bytes of a fixed or dynamic index, and the checks both kinds share. Little-endian.
 *
 *    0   8   magic
 *    8  16   UUID
 *   24   8   ctime, seconds, signed
 *   32  32   checksum over the entries: untrusted, it is computed anew and compared with the manifest
 *   64   …   fixed index: size (8), chunk size (8); else zero
 *   4096 …   entries, packed, to the end of the file
 *
 * 4096 is the format, whatever the page size of the machine.
 * Source: PBS `pbs-datastore/src/file_formats.rs`, `FixedIndexHeader` and `DynamicIndexHeader`.
 */
import { hash } from 'node:crypto';
import { PbsfsError } from '../errors.ts';

const indexHeaderSize = 4096;
/** Bytes of a chunk digest. */
export const digestSize = 32;

const magicSize = 8;
const uuidOffset = 8;
const uuidSize = 16;
const ctimeOffset = 24;
const csumOffset = 32;

export interface IndexHeader {
  readonly uuid: Buffer;
  readonly ctime: number;
  /** Computed over the entries. */
  readonly csum: Buffer;
  /** View of everything behind the header. */
  readonly entries: Buffer;
  readonly chunkCount: number;
}

/**
 * Checks length and magic, and hashes the entries.
 * @param what `fixed index` or `dynamic index`.
 * @throws PbsfsError `corrupt`
 */
export function decodeIndexHeader(
  bytes: Buffer,
  what: string,
  magic: Buffer,
  entrySize: number,
): IndexHeader {
  if (bytes.length < indexHeaderSize) {
    throw new PbsfsError(
      'corrupt',
      `${what} of ${bytes.length} bytes is shorter than its header of ${indexHeaderSize}`,
    );
  }
  const found = bytes.subarray(0, magicSize);
  if (!found.equals(magic)) {
    throw new PbsfsError('corrupt', `not a ${what}: unknown magic ${found.toString('hex')}`);
  }
  const entries = bytes.subarray(indexHeaderSize);
  const rest = entries.length % entrySize;
  if (rest !== 0) {
    throw new PbsfsError(
      'corrupt',
      `${what} ends with ${rest} bytes of an entry of ${entrySize} bytes`,
    );
  }
  return {
    uuid: bytes.subarray(uuidOffset, uuidOffset + uuidSize),
    // Only shown, so that rounding beyond 2^53 does no harm.
    ctime: Number(bytes.readBigInt64LE(ctimeOffset)),
    csum: hash('sha256', entries, 'buffer'),
    entries,
    chunkCount: entries.length / entrySize,
  };
}

/** Compares the digest at `offset` of the entries in place, with no view made for it. */
export function digestEquals(entries: Buffer, offset: number, digest: Uint8Array): boolean {
  for (let i = 0; i < digestSize; i++) {
    if (entries[offset + i] !== digest[i]) return false;
  }
  return true;
}

export interface IndexIdentity {
  /** 16 bytes. */
  readonly uuid: Uint8Array;
  /** Seconds since the epoch. */
  readonly ctime: number;
}

/** A whole index file: header with the checksum over `entries`, then the entries. */
export function encodeIndexHeader(magic: Buffer, identity: IndexIdentity, entries: Buffer): Buffer {
  const header = Buffer.alloc(indexHeaderSize);
  magic.copy(header);
  header.set(identity.uuid.subarray(0, uuidSize), uuidOffset);
  header.writeBigInt64LE(BigInt(identity.ctime), ctimeOffset);
  hash('sha256', entries, 'buffer').copy(header, csumOffset);
  return Buffer.concat([header, entries]);
}

/**
 * The bug of a caller who asks for what is not there.
 * @throws PbsfsError `bug`
 */
export function assertInRange(value: number, limit: number, what: string): void {
  if (!(Number.isInteger(value) && value >= 0 && value < limit)) {
    throw new PbsfsError('bug', `${what} ${value} is not within 0…${limit - 1}`);
  }
}
