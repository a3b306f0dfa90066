/**
 * An archive cut into chunks, with its index and its stored chunks in memory: what the chunk layer reads, made by
 * the test-only encoders. It counts the reads and lets a test exchange what is stored.
 */
import { PbsfsError } from '../../src/errors.ts';
import { type ChunkIndex, decodeIndex } from '../../src/formats/chunk-index.ts';
import type { CryptConfig } from '../../src/formats/crypt-config.ts';
import type { SnapshotReader } from '../../src/repository/repository.ts';
import {
  chunkDigest,
  encodeTestBlob,
  encodeTestDynamicIndex,
  encodeTestFixedIndex,
} from './encode-formats.ts';

export interface MemoryArchive {
  readonly data: Buffer;
  readonly index: ChunkIndex;
  /** Stored chunks by digest in hex. */
  readonly stored: Map<string, Buffer>;
  /** Digests in hex, one for each read, in order. */
  readonly reads: string[];
  readonly reader: Pick<SnapshotReader, 'readChunk'>;
  /** Digest of chunk `i` in hex. */
  digest(i: number): string;
}

export interface MemoryArchiveOptions {
  /** A number makes a fixed index, a list of lengths a dynamic one. */
  readonly cut: number | readonly number[];
  /** Encrypts. */
  readonly crypt?: CryptConfig | undefined;
  /** Stores the last chunk padded with zeros to the chunk size. */
  readonly padLast?: boolean;
}

export function memoryArchive(data: Buffer, options: MemoryArchiveOptions): MemoryArchive {
  const { cut, crypt, padLast = false } = options;
  const lengths = typeof cut === 'number' ? fixedLengths(data.length, cut) : cut;
  const key = crypt?.revealKey();
  const stored = new Map<string, Buffer>();
  const digests: Buffer[] = [];
  const ends: number[] = [];
  let start = 0;
  for (const length of lengths) {
    const end = start + length;
    const isPadded = padLast && typeof cut === 'number' && end === data.length;
    const padding = Buffer.alloc(isPadded ? cut - length : 0);
    const plain = Buffer.concat([data.subarray(start, end), padding]);
    const digest = chunkDigest(plain, key);
    stored.set(
      digest.toString('hex'),
      encodeTestBlob(plain, key === undefined ? 'zstd' : 'encrypted-zstd', key),
    );
    digests.push(digest);
    ends.push(end);
    start = end;
  }
  const index =
    typeof cut === 'number'
      ? decodeIndex('x.fidx', encodeTestFixedIndex(data.length, cut, digests).bytes)
      : decodeIndex(
          'x.didx',
          encodeTestDynamicIndex(
            ends.map((end, i) => ({ end, digest: digests[i] ?? Buffer.alloc(32) })),
          ).bytes,
        );
  const reads: string[] = [];
  const readChunk = async (digest: Uint8Array): Promise<Buffer> => {
    const hex = Buffer.from(digest).toString('hex');
    reads.push(hex);
    // A turn of the event loop, as any real read takes.
    await new Promise((resolve) => setImmediate(resolve));
    const raw = stored.get(hex);
    if (raw === undefined) throw new PbsfsError('chunk-missing', 'not stored');
    return raw;
  };
  return {
    data,
    index,
    stored,
    reads,
    reader: { readChunk },
    digest: (i) => index.digest(i).toString('hex'),
  };
}

function fixedLengths(size: number, chunkSize: number): number[] {
  const count = Math.ceil(size / chunkSize);
  return Array.from({ length: count }, (_, i) => Math.min(chunkSize, size - i * chunkSize));
}
