/**
 * An archive as bytes at offsets, read through its index, the shared cache and a fetcher.
 *
 *   read(offset, length) → chunks that hold the range → known zeros, or cache, or in flight, or fetched
 *
 * `isPresent(i)`, `bring(i)` and `leave(i)` are the seam for what runs ahead of a reader.
 */
import { throwIfAborted } from '../abort.ts';
import { type ErrorContext, toPbsfsError } from '../errors.ts';
import type { ChunkIndex } from '../formats/chunk-index.ts';
import { FixedIndex } from '../formats/fixed-index.ts';
import type { Loan, SparseReadAt } from '../read-at.ts';
import type { ChunkCache } from './chunk-cache.ts';
import type { ChunkFetcher } from './chunk-fetcher.ts';
import type { ChunkMemory } from './chunk-memory.ts';
import { checkOffset, readChunkRange } from './chunk-range.ts';
import { HoleMap } from './hole-map.ts';
import { zeroBytes } from './zero-chunks.ts';

type ReaderCache = Pick<ChunkCache, 'find' | 'get' | 'has' | 'leave'>;

export interface CachedChunkReaderOptions {
  readonly index: ChunkIndex;
  readonly fetcher: ChunkFetcher;
  readonly cache: ReaderCache;
  /** Snapshot and archive, for errors. */
  readonly context?: ErrorContext;
}

export class CachedChunkReader implements SparseReadAt {
  readonly index: ChunkIndex;
  readonly #fetcher: ChunkFetcher;
  readonly #cache: ReaderCache;
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

  async borrow(offset: number, length: number, signal?: AbortSignal): Promise<Loan> {
    throwIfAborted(signal);
    return this.#borrowPresent(offset, length) ?? (await this.#borrowRange(offset, length, signal));
  }

  /** The usual case without a detour: a range within one chunk that is here. */
  #borrowPresent(offset: number, length: number): Loan | undefined {
    const { index } = this;
    const end = offset + length;
    if (!(Number.isSafeInteger(offset) && offset >= 0 && length > 0 && end <= index.size)) return;
    const i = index.chunkAt(offset);
    if (end > index.chunkEnd(i)) return;
    if (this.#holes.isZero(i)) return new ChunkLoan([zeroBytes(length)], []);
    const chunk = this.#cache.find(this.#key(i));
    if (chunk === undefined) return;
    const start = index.chunkStart(i);
    return new ChunkLoan([chunk.borrow().subarray(offset - start, end - start)], [chunk]);
  }

  async #borrowRange(
    offset: number,
    length: number,
    signal: AbortSignal | undefined,
  ): Promise<Loan> {
    const borrowed: ChunkMemory[] = [];
    let isOver = false;
    const borrowChunk = async (i: number): Promise<Buffer> => {
      const chunk = await this.#chunk(i, signal);
      if (Buffer.isBuffer(chunk)) return chunk;
      // Another chunk of the range has failed meanwhile.
      if (isOver) return Buffer.alloc(0);
      borrowed.push(chunk);
      return chunk.borrow();
    };
    try {
      const slices = await readChunkRange(this.index, offset, length, borrowChunk);
      return new ChunkLoan(slices, borrowed);
    } catch (error) {
      isOver = true;
      for (const chunk of borrowed) chunk.giveBack();
      throw error;
    }
  }

  /**
   * Chunk `i` of the index, whole and verified.
   * @throws PbsfsError `corrupt`, `chunk-missing`, … with snapshot, archive, range and digest.
   */
  async chunk(i: number, signal?: AbortSignal): Promise<Buffer> {
    const chunk = await this.#chunk(i, signal);
    return Buffer.isBuffer(chunk) ? chunk : chunk.take();
  }

  /** Has chunk `i` in the cache when it resolves. @throws PbsfsError as `chunk` */
  async bring(i: number, signal?: AbortSignal): Promise<void> {
    await this.#chunk(i, signal);
  }

  /** Lets chunk `i` go before others: a forward reader has passed it. */
  leave(i: number): void {
    if (!this.#holes.isZero(i)) this.#cache.leave(this.#key(i));
  }

  async #chunk(i: number, signal: AbortSignal | undefined): Promise<ChunkMemory | Buffer> {
    const offset = this.index.chunkStart(i);
    const length = this.index.chunkEnd(i) - offset;
    if (this.#holes.isZero(i)) return zeroBytes(length);
    const load = (loadSignal: AbortSignal) =>
      this.#fetcher.fetch(this.index.digest(i), length, loadSignal, this.#paddedLength(length));
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

  /** Whether `bytes` are chunk `i`, told by its digest without a fetch. */
  async holds(i: number, bytes: Uint8Array): Promise<boolean> {
    const length = this.index.chunkEnd(i) - this.index.chunkStart(i);
    if (bytes.length !== length) return false;
    const padding = zeroBytes(this.#paddedLength(length) - length);
    const candidates = padding.length === 0 ? [bytes] : [bytes, Buffer.concat([bytes, padding])];
    for (const candidate of candidates) {
      if (this.index.hasDigest(i, await this.#fetcher.digestOf(candidate))) return true;
    }
    return false;
  }

  /** Of an image only the last chunk is shorter than the others, and some writers pad it. */
  #paddedLength(length: number): number {
    return this.index instanceof FixedIndex ? this.index.chunkSize : length;
  }

  /** The same digest under another length or crypt mode has to pass its own checks. */
  #key(i: number): string {
    const length = this.index.chunkEnd(i) - this.index.chunkStart(i);
    return `${this.#fetcher.isEncrypted}:${length}:${this.index.digest(i).toString('hex')}`;
  }
}

class ChunkLoan implements Loan {
  readonly slices: readonly Uint8Array[];
  #chunks: readonly ChunkMemory[];

  constructor(slices: readonly Uint8Array[], chunks: readonly ChunkMemory[]) {
    this.slices = slices;
    this.#chunks = chunks;
  }

  [Symbol.dispose](): void {
    for (const chunk of this.#chunks) chunk.giveBack();
    this.#chunks = [];
  }
}
