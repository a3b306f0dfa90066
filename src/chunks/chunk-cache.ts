/**
 * The plain, verified chunks that all archives of a mount share. Whoever has an archive open holds a lease;
 * after the last lease everything is dropped, so that an idle mount costs no memory. A cache may linger for
 * some seconds: who copies a thousand small files out of one chunk opens and closes it a thousand times.
 *
 * What forward readers have left behind keeps half of the cache at most, and goes before all else: a copy of a whole
 * image neither drives out what a virtual machine beside it works with, nor fills the memory with what nobody will
 * read again.
 */
import { PbsfsError } from '../errors.ts';
import { AsyncLruCache, type Load } from './async-lru-cache.ts';
import { ChunkMemory } from './chunk-memory.ts';

/** Bytes that one chunk of the capacity stands for: the chunk size of images. */
const capacityUnit = 4 * 1024 * 1024;

const shareOfLeft = 0.5;

export interface ChunkCacheOptions {
  /** Capacity in chunks of 4 MiB, 1 or more. There is always room for one chunk, also a larger one. */
  readonly chunks: number;
  /** Seconds that the content stays after the last lease; default 0. */
  readonly lingerSeconds?: number;
}

export class ChunkCache {
  /** Bound of all chunks together. */
  readonly maxBytes: number;
  readonly #chunks: AsyncLruCache<ChunkMemory>;
  readonly #lingerMs: number;
  /** Bytes by key of what was left and not asked for since, oldest first. */
  readonly #left = new Map<string, number>();
  #leftBytes = 0;
  #leases = 0;
  #drop: NodeJS.Timeout | undefined;

  /** @throws PbsfsError `usage` */
  constructor({ chunks, lingerSeconds = 0 }: ChunkCacheOptions) {
    if (!Number.isInteger(chunks) || chunks < 1) {
      throw new PbsfsError('usage', `cache capacity is ${chunks} chunks, at least 1 is needed`);
    }
    this.maxBytes = chunks * capacityUnit;
    this.#lingerMs = lingerSeconds * 1000;
    this.#chunks = new AsyncLruCache({
      maxBytes: this.maxBytes,
      sizeOf: (chunk) => chunk.length,
      onEvict: (chunk) => chunk.evict(),
    });
  }

  /** See `AsyncLruCache.get`. The caller takes or borrows the bytes at once, or leaves them alone. */
  get(key: string, load: Load<Buffer>, signal?: AbortSignal): Promise<ChunkMemory> {
    this.#return(key);
    // Who reads only a listing holds no lease.
    if (this.#leases === 0 && this.#lingerMs > 0) this.#dropSoon();
    const loadMemory = async (loadSignal: AbortSignal) => {
      const chunk = new ChunkMemory(await load(loadSignal));
      this.#dropLeft(() => this.#chunks.bytes + chunk.length > this.maxBytes);
      return chunk;
    };
    return this.#chunks.get(key, loadMemory, signal);
  }

  /** The chunk if it is here. */
  find(key: string): ChunkMemory | undefined {
    this.#return(key);
    return this.#chunks.find(key);
  }

  /** Whether the chunk is here or on its way. */
  has(key: string): boolean {
    return this.#chunks.has(key);
  }

  /** Lets the chunk go before others, unless somebody asks for it again. */
  leave(key: string): void {
    this.#return(key);
    const bytes = this.#chunks.peek(key)?.length;
    if (bytes === undefined) return;
    this.#left.set(key, bytes);
    this.#leftBytes += bytes;
    this.#dropLeft(() => this.#leftBytes > this.maxBytes * shareOfLeft);
  }

  /** Drops what was left, the oldest first, for as long as there is too much. */
  #dropLeft(isTooMuch: () => boolean): void {
    for (const oldest of this.#left.keys()) {
      if (!isTooMuch()) return;
      this.#return(oldest);
      this.#chunks.delete(oldest);
    }
  }

  #return(key: string): void {
    const bytes = this.#left.get(key);
    if (bytes === undefined) return;
    this.#left.delete(key);
    this.#leftBytes -= bytes;
  }

  /** Keeps the content alive until the lease is disposed. */
  acquire(): Disposable {
    let isHeld = true;
    this.#leases++;
    clearTimeout(this.#drop);
    return {
      [Symbol.dispose]: () => {
        if (!isHeld) return;
        isHeld = false;
        this.#leases--;
        if (this.#leases === 0) this.#dropSoon();
      },
    };
  }

  #dropSoon(): void {
    clearTimeout(this.#drop);
    if (this.#lingerMs === 0) this.#clear();
    else this.#drop = setTimeout(() => this.#clear(), this.#lingerMs).unref();
  }

  #clear(): void {
    this.#chunks.clear();
    this.#left.clear();
    this.#leftBytes = 0;
  }
}
