/** Views and integers that the decoders of this layer share. */
import { PbsfsError } from '../errors.ts';

/** The same memory as a `Buffer`, without a copy. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const twoTo32 = 0x1_0000_0000;

/**
 * The little-endian u64 at `offset` as a number.
 * @param what names the field in the message.
 * @throws PbsfsError `corrupt` beyond 2^53−1.
 */
export function readU64(bytes: Buffer, offset: number, what: string): number {
  const value = bytes.readUInt32LE(offset + 4) * twoTo32 + bytes.readUInt32LE(offset);
  if (value > Number.MAX_SAFE_INTEGER) {
    throw new PbsfsError('corrupt', `${what} is ${bytes.readBigUInt64LE(offset)}, beyond 2^53−1`);
  }
  return value;
}
