/**
 * An archive as bytes at offsets, read through its index, the shared cache and a fetcher.
 *
 *   read(offset, length) → chunks that hold the range → known zeros, or cache, or in flight, or fetched
 *
 * `chunk(i)` is the seam for what runs ahead of a reader: it asks for chunks by position and answers reads
 * with `readChunkRange`.
 */
import { throwIfAborted } from '../abort.ts';
import { type ErrorContext, toPbsfsError } from '../errors.ts';
import type { ChunkIndex } from '../formats/chunk-index.ts';
import { FixedIndex } from '../formats/fixed-index.ts';
import type { SparseReadAt } from '../read-at.ts';
import type { ChunkCache } from './chunk-cache.ts';
import type { ChunkFetcher } from './chunk-fetcher.ts';
import { checkOffset, readChunkRange } from './chunk-range.ts';
import { HoleMap } from './hole-map.ts';
import { zeroBytes } from './zero-chunks.ts';

export interface CachedChunkReaderOptions {
  readonly index: ChunkIndex;
  readonly fetcher: ChunkFetcher;
  readonly cache: Pick<ChunkCache, 'get' | 'has'>;
  /** Snapshot and archive, for errors. */
  readonly context?: ErrorContext;
}

export class CachedChunkReader implements SparseReadAt {
  readonly index: ChunkIndex;
  readonly #fetcher: ChunkFetcher;
  readonly #cache: Pick<ChunkCache, 'get' | 'has'>;
  readonly #context: ErrorContext;
  readonly #holes: HoleMap;

  constructor(options: CachedChunkReaderOptions) {
    this.index = options.index;
    this.#fetcher = options.fetcher;
    this.#cache = options.cache;
    this.#context = options.context ?? {};
    const { isEncrypted, crypt } = options.fetcher;
    this.#holes = new HoleMap({ index: options.index, isEncrypted, crypt });
  }

  get size(): number {
    return this.index.size;
  }

  get dataSize(): number {
    return this.#holes.dataSize;
  }

  nextData(offset: number): number | undefined {
    checkOffset(offset, 'offset');
    return this.#holes.nextData(offset);
  }

  nextHole(offset: number): number {
    checkOffset(offset, 'offset');
    return this.#holes.nextHole(offset);
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<readonly Uint8Array[]> {
    throwIfAborted(signal);
    return readChunkRange(this.index, offset, length, (i) => this.chunk(i, signal));
  }

  /**
   * Chunk `i` of the index, whole and verified.
   * @throws PbsfsError `corrupt`, `chunk-missing`, … with snapshot, archive, range and digest.
   */
  async chunk(i: number, signal?: AbortSignal): Promise<Buffer> {
    const offset = this.index.chunkStart(i);
    const length = this.index.chunkEnd(i) - offset;
    if (this.#holes.isZero(i)) return zeroBytes(length);
    const load = (loadSignal: AbortSignal) =>
      this.#fetcher.fetch(this.index.digest(i), length, loadSignal, this.#paddedLength(i, length));
    try {
      return await this.#cache.get(this.#key(i), load, signal);
    } catch (error) {
      throw toPbsfsError(error).at({ ...this.#context, offset, length });
    }
  }

  /** Whether chunk `i` needs no fetch: known zeros, cached, or on its way. */
  isPresent(i: number): boolean {
    return this.#holes.isZero(i) || this.#cache.has(this.#key(i));
  }

  /** The same digest under another length or crypt mode has to pass its own checks. */
  #key(i: number): string {
    const length = this.index.chunkEnd(i) - this.index.chunkStart(i);
    return `${this.#fetcher.isEncrypted}:${length}:${this.index.digest(i).toString('hex')}`;
  }

  /** Some writers pad the last chunk of an image; no other may be longer than its range. */
  #paddedLength(i: number, length: number): number {
    const { index } = this;
    const isLast = i === index.chunkCount - 1;
    return isLast && index instanceof FixedIndex ? index.chunkSize : length;
  }
}
