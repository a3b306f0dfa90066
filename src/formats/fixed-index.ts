/**
 * Fixed index (`.fidx`): an image cut into chunks of one size, the last of which may be shorter.
 *
 *     0   8   magic
 *    64   8   size of the image
 *    72   8   chunk size
 *   4096 32·n digest of chunk i
 *
 * Source: PBS `pbs-datastore/src/fixed_index.rs`. Unlike PBS, an image of no bytes and no chunks is taken.
 */
import { PbsfsError } from '../errors.ts';
import { asBuffer, readU64 } from './bytes.ts';
import type { ChunkIndex } from './chunk-index.ts';
import { maxChunkSize } from './data-blob.ts';
import {
  assertInRange,
  decodeIndexHeader,
  digestEquals,
  digestSize,
  encodeIndexHeader,
  type IndexHeader,
  type IndexIdentity,
} from './index-header.ts';

const magic = Buffer.from('2f7f41ed91fd0fcd', 'hex');
const sizeOffset = 64;
const chunkSizeOffset = 72;

export class FixedIndex implements ChunkIndex {
  readonly kind = 'fixed';
  readonly size: number;
  readonly chunkSize: number;
  readonly chunkCount: number;
  readonly csum: Buffer;
  readonly uuid: Buffer;
  readonly ctime: number;
  readonly #digests: Buffer;

  constructor(header: IndexHeader, size: number, chunkSize: number) {
    this.size = size;
    this.chunkSize = chunkSize;
    this.chunkCount = header.chunkCount;
    this.csum = header.csum;
    this.uuid = header.uuid;
    this.ctime = header.ctime;
    this.#digests = header.entries;
  }

  chunkStart(i: number): number {
    assertInRange(i, this.chunkCount, 'chunk');
    return i * this.chunkSize;
  }

  chunkEnd(i: number): number {
    return Math.min(this.chunkStart(i) + this.chunkSize, this.size);
  }

  digest(i: number): Buffer {
    assertInRange(i, this.chunkCount, 'chunk');
    return this.#digests.subarray(i * digestSize, (i + 1) * digestSize);
  }

  hasDigest(i: number, digest: Uint8Array): boolean {
    assertInRange(i, this.chunkCount, 'chunk');
    return digestEquals(this.#digests, i * digestSize, digest);
  }

  chunkAt(offset: number): number {
    assertInRange(offset, this.size, 'offset');
    return Math.floor(offset / this.chunkSize);
  }
}

/** @throws PbsfsError `corrupt` */
export function decodeFixedIndex(bytes: Uint8Array): FixedIndex {
  const file = asBuffer(bytes);
  const header = decodeIndexHeader(file, 'fixed index', magic, digestSize);
  const size = readU64(file, sizeOffset, 'image size');
  const chunkSize = readU64(file, chunkSizeOffset, 'chunk size');
  // Up to 2^24, so that bit operations, which cut to 32 bits, are exact.
  const isPowerOfTwo = chunkSize > 0 && (chunkSize & (chunkSize - 1)) === 0;
  if (chunkSize > maxChunkSize || !isPowerOfTwo) {
    throw new PbsfsError(
      'corrupt',
      `chunk size ${chunkSize} is not a power of two up to ${maxChunkSize}`,
    );
  }
  const expected = Math.ceil(size / chunkSize);
  if (header.chunkCount !== expected) {
    throw new PbsfsError(
      'corrupt',
      `fixed index has ${header.chunkCount} chunks, an image of ${size} bytes needs ${expected}`,
    );
  }
  return new FixedIndex(header, size, chunkSize);
}

export interface FixedIndexContent extends IndexIdentity {
  readonly size: number;
  readonly chunkSize: number;
  /** One of 32 bytes for each chunk. */
  readonly digests: readonly Uint8Array[];
}

/** The whole file, checksum included. */
export function encodeFixedIndex(content: FixedIndexContent): Buffer {
  const file = encodeIndexHeader(magic, content, Buffer.concat(content.digests));
  file.writeBigUInt64LE(BigInt(content.size), sizeOffset);
  file.writeBigUInt64LE(BigInt(content.chunkSize), chunkSizeOffset);
  return file;
}
