/**
 * The plain, verified chunks that all archives of a mount share. Whoever has an archive open holds a lease;
 * with the last lease everything is dropped, so that an idle mount costs no memory.
 */
import { PbsfsError } from '../errors.ts';
import { AsyncLruCache, type Load } from './async-lru-cache.ts';

/** Bytes that one chunk of the capacity stands for: the chunk size of images. */
const capacityUnit = 4 * 1024 * 1024;

export interface ChunkCacheOptions {
  /** Capacity in chunks of 4 MiB, 1 or more. There is always room for one chunk, also a larger one. */
  readonly chunks: number;
}

export class ChunkCache {
  /** Bound of all chunks together. */
  readonly maxBytes: number;
  readonly #chunks: AsyncLruCache<Buffer>;
  #leases = 0;

  /** @throws PbsfsError `usage` */
  constructor({ chunks }: ChunkCacheOptions) {
    if (!Number.isInteger(chunks) || chunks < 1) {
      throw new PbsfsError('usage', `cache capacity is ${chunks} chunks, at least 1 is needed`);
    }
    this.maxBytes = chunks * capacityUnit;
    this.#chunks = new AsyncLruCache({
      maxBytes: this.maxBytes,
      sizeOf: (chunk) => chunk.length,
    });
  }

  /** See `AsyncLruCache.get`. */
  get(key: string, load: Load<Buffer>, signal?: AbortSignal): Promise<Buffer> {
    return this.#chunks.get(key, load, signal);
  }

  /** Whether the chunk is here or on its way. */
  has(key: string): boolean {
    return this.#chunks.has(key);
  }

  /** Keeps the content alive until the lease is disposed. */
  acquire(): Disposable {
    let isHeld = true;
    this.#leases++;
    return {
      [Symbol.dispose]: () => {
        if (!isHeld) return;
        isHeld = false;
        this.#leases--;
        if (this.#leases === 0) this.#chunks.clear();
      },
    };
  }
}
