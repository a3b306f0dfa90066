/**
 * Runs ahead of the reads of one handle: brings the chunks of `ReadAheadPlanner` into the shared cache, in
 * parallel, without anybody waiting for them.
 *
 * What is zero, cached or in flight is left alone. A failure is dropped: the read that needs the chunk asks
 * again and reports it. All streams of all handles together stay within a share of the cache, so that a
 * window never evicts what it has just brought; and what they leave behind may keep another share of it.
 */
import { setMaxListeners } from 'node:events';
import { PbsfsError } from '../errors.ts';
import { borrow, type Loan, type SparseReadAt } from '../read-at.ts';
import { Semaphore } from '../semaphore.ts';
import type { CachedChunkReader } from './cached-chunk-reader.ts';
import { type ChunkMap, ReadAheadPlanner } from './read-ahead-planner.ts';

/** One for all: an error of its own for each file that is closed takes longer than closing it. */
const wasClosed = new PbsfsError('aborted', 'the file was closed');
/**
 * Least recently used, a chunk that waits to be read goes before all that were read since it came. As many as are
 * ahead come and are read meanwhile, so twice as many must fit, and those that the readers themselves wait for.
 */
const shareOfCache = 0.25;
/** Of all fetches at once, so many are for those who wait, however much is to be brought ahead. */
const fetchesForWaiting = 2;

/** Where published measurements of whole-image restores stopped to gain: between 8 and 16. */
export const defaultPrefetch = 12;

export interface PrefetchOptions {
  /** Most chunks ahead of one stream; 0 turns prefetching off. */
  readonly chunks: number;
  /** Capacity of the cache that they go to. */
  readonly cacheBytes: number;
  /** Chunks that are fetched and decoded at once, for whatever reason. */
  readonly concurrency: number;
}

/** What all prefetchers on one cache may use together. */
export class PrefetchBudget {
  readonly chunks: number;
  /** Bounds the fetches under way. */
  readonly limiter: Semaphore;
  readonly #bytes: number;
  #streams = 0;

  constructor({ chunks, cacheBytes, concurrency }: PrefetchOptions) {
    this.chunks = chunks;
    this.limiter = new Semaphore(Math.max(concurrency - fetchesForWaiting, 1));
    this.#bytes = cacheBytes * shareOfCache;
  }

  /** What one of the streams that run may have ahead. */
  get bytesPerStream(): number {
    return this.#bytes / Math.max(this.#streams, 1);
  }

  /** Notes that streams began to run, or ended. */
  changeStreams(by: number): void {
    this.#streams += by;
  }
}

/** For a handle that nothing is brought ahead for. */
export const noPrefetch = new PrefetchBudget({ chunks: 0, cacheBytes: 0, concurrency: 1 });

export class Prefetcher implements Disposable {
  readonly #reader: CachedChunkReader;
  readonly #budget: PrefetchBudget;
  readonly #planner: ReadAheadPlanner;
  /** Made with the first chunk that is brought: most files are small. */
  #stop: AbortController | undefined;
  #isClosed = false;
  #running = 0;

  constructor(reader: CachedChunkReader, budget: PrefetchBudget) {
    this.#reader = reader;
    this.#budget = budget;
    this.#planner = new ReadAheadPlanner(chunkMapOf(reader), (i) => reader.leave(i));
  }

  /** Tells of a read that was just started, so that its own chunks are in flight first. */
  onRead(offset: number, length: number): void {
    const { chunks, bytesPerStream: bytes } = this.#budget;
    const present = Math.min(length, this.#reader.size - offset);
    if (chunks === 0 || present <= 0 || this.#isClosed) return;
    for (const i of this.#planner.plan(offset, present, { chunks, bytes })) this.#bring(i);
    this.#count(this.#planner.running);
  }

  /** Stops what is in flight. */
  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#stop?.abort(wasClosed);
    this.#count(0);
  }

  #bring(i: number): void {
    this.#stop ??= unlimitedController();
    const { signal } = this.#stop;
    const bring = async (): Promise<void> => {
      if (!this.#reader.isPresent(i)) await this.#reader.bring(i, signal);
    };
    this.#budget.limiter.run(bring, signal).catch(() => {});
  }

  #count(running: number): void {
    if (running === this.#running) return;
    this.#budget.changeStreams(running - this.#running);
    this.#running = running;
  }
}

/**
 * `source`, which reads by `reader`, for one handle: whoever reads it forward finds the next chunks there. Disposing
 * it stops what runs ahead.
 */
export class PrefetchingReader implements SparseReadAt, Disposable {
  readonly size: number;
  readonly #source: SparseReadAt;
  readonly #prefetcher: Prefetcher;

  constructor(source: SparseReadAt, reader: CachedChunkReader, budget: PrefetchBudget) {
    this.size = source.size;
    this.#source = source;
    this.#prefetcher = new Prefetcher(reader, budget);
  }

  get dataSize(): number {
    return this.#source.dataSize;
  }

  read(offset: number, length: number, signal?: AbortSignal): Promise<readonly Uint8Array[]> {
    const slices = this.#source.read(offset, length, signal);
    this.#prefetcher.onRead(offset, length);
    return slices;
  }

  borrow(offset: number, length: number, signal?: AbortSignal): Promise<Loan> {
    const loan = borrow(this.#source, offset, length, signal);
    this.#prefetcher.onRead(offset, length);
    return loan;
  }

  nextData(offset: number): number | undefined {
    return this.#source.nextData(offset);
  }

  nextHole(offset: number): number {
    return this.#source.nextHole(offset);
  }

  [Symbol.dispose](): void {
    this.#prefetcher[Symbol.dispose]();
  }
}

/** One listener for each chunk in flight. */
function unlimitedController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

function chunkMapOf(reader: CachedChunkReader): ChunkMap {
  const { index } = reader;
  return {
    chunkCount: index.chunkCount,
    chunkStart: (i) => index.chunkStart(i),
    chunkEnd: (i) => index.chunkEnd(i),
    chunkAt: (offset) => index.chunkAt(offset),
    nextDataChunk: (i) => {
      if (i >= index.chunkCount) return index.chunkCount;
      const data = reader.nextData(index.chunkStart(i));
      return data === undefined ? index.chunkCount : index.chunkAt(data);
    },
  };
}
