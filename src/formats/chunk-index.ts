/**
 * `ChunkIndex`: the list of chunks that make up an image or an archive, of either kind.
 *
 * Source: PBS `pbs-datastore/src/index.rs`.
 */
import { PbsfsError } from '../errors.ts';
import { archiveKind } from './archive-name.ts';
import { decodeDynamicIndex } from './dynamic-index.ts';
import { decodeFixedIndex } from './fixed-index.ts';

export interface ChunkIndex {
  readonly kind: 'fixed' | 'dynamic';
  /** Bytes of the archive. */
  readonly size: number;
  readonly chunkCount: number;
  /** SHA-256 over the entries, computed: compare it with the manifest. */
  readonly csum: Buffer;
  readonly uuid: Buffer;
  /** Seconds since the epoch. */
  readonly ctime: number;
  /** First byte of chunk `i`. */
  chunkStart(i: number): number;
  /** One past the last byte of chunk `i`. */
  chunkEnd(i: number): number;
  /** Digest of chunk `i`, 32 bytes: a view of the index. */
  digest(i: number): Buffer;
  /** Whether chunk `i` has that digest: cheaper than `digest`, for passes over all entries. */
  hasDigest(i: number, digest: Uint8Array): boolean;
  /** The chunk that holds the byte at `offset`, which lies within the archive. */
  chunkAt(offset: number): number;
}

/**
 * Decodes the kind of index that `filename` (`.fidx` or `.didx`) says it is.
 * @throws PbsfsError `corrupt`; `usage` for the name of something else.
 */
export function decodeIndex(filename: string, bytes: Uint8Array): ChunkIndex {
  switch (archiveKind(filename)) {
    case 'fixed':
      return decodeFixedIndex(bytes);
    case 'dynamic':
      return decodeDynamicIndex(bytes);
    case 'blob':
      throw new PbsfsError('usage', `'${filename}' is not an index`);
  }
}
