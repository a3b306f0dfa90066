/**
 * Dynamic index (`.didx`): an archive cut into chunks of any size, up to 16 MiB each.
 *
 *     0        8   magic
 *   4096 + 40i 8   end of chunk i: one past its last byte
 *   4104 + 40i 32  digest of chunk i
 *
 * Source: PBS `pbs-datastore/src/dynamic_index.rs`. Unlike PBS, an archive of no bytes and no chunks is taken,
 * and ends that do not rise are refused.
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

const magic = Buffer.from('1c914ea519bab3cd', 'hex');
const endSize = 8;
const entrySize = endSize + digestSize;

export class DynamicIndex implements ChunkIndex {
  readonly kind = 'dynamic';
  readonly size: number;
  readonly chunkCount: number;
  readonly csum: Buffer;
  readonly uuid: Buffer;
  readonly ctime: number;
  readonly #entries: Buffer;

  constructor(header: IndexHeader, size: number) {
    this.size = size;
    this.chunkCount = header.chunkCount;
    this.csum = header.csum;
    this.uuid = header.uuid;
    this.ctime = header.ctime;
    this.#entries = header.entries;
  }

  chunkStart(i: number): number {
    assertInRange(i, this.chunkCount, 'chunk');
    return i === 0 ? 0 : this.#end(i - 1);
  }

  chunkEnd(i: number): number {
    assertInRange(i, this.chunkCount, 'chunk');
    return this.#end(i);
  }

  digest(i: number): Buffer {
    assertInRange(i, this.chunkCount, 'chunk');
    return this.#entries.subarray(i * entrySize + endSize, (i + 1) * entrySize);
  }

  hasDigest(i: number, digest: Uint8Array): boolean {
    assertInRange(i, this.chunkCount, 'chunk');
    return digestEquals(this.#entries, i * entrySize + endSize, digest);
  }

  chunkAt(offset: number): number {
    assertInRange(offset, this.size, 'offset');
    // The first chunk that ends behind the offset.
    let low = 0;
    let high = this.chunkCount - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#end(middle) > offset) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #end(i: number): number {
    return chunkEnd(this.#entries, i);
  }
}

function chunkEnd(entries: Buffer, i: number): number {
  return readU64(entries, i * entrySize, 'chunk end');
}

/** @throws PbsfsError `corrupt` */
export function decodeDynamicIndex(bytes: Uint8Array): DynamicIndex {
  const header = decodeIndexHeader(asBuffer(bytes), 'dynamic index', magic, entrySize);
  let size = 0;
  for (let i = 0; i < header.chunkCount; i++) {
    const end = chunkEnd(header.entries, i);
    const length = end - size;
    if (length <= 0 || length > maxChunkSize) {
      throw new PbsfsError(
        'corrupt',
        `chunk ${i} covers ${size}…${end}: its length is not within 1…${maxChunkSize}`,
      );
    }
    size = end;
  }
  return new DynamicIndex(header, size);
}

export interface DynamicIndexContent extends IndexIdentity {
  /** In order; `end` is one past the last byte. */
  readonly chunks: readonly { readonly end: number; readonly digest: Uint8Array }[];
}

/** The whole file, checksum included. */
export function encodeDynamicIndex(content: DynamicIndexContent): Buffer {
  const entries = Buffer.alloc(content.chunks.length * entrySize);
  for (const [i, chunk] of content.chunks.entries()) {
    entries.writeBigUInt64LE(BigInt(chunk.end), i * entrySize);
    entries.set(chunk.digest, i * entrySize + endSize);
  }
  return encodeIndexHeader(magic, content, entries);
}
