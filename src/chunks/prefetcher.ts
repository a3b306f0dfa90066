/**
 * Runs ahead of the reads of one handle: brings the chunks of `ReadAheadPlanner` into the shared cache, in
 * parallel, without anybody waiting for them.
 *
 * What is zero, cached or in flight is left alone. A failure is dropped: the read that needs the chunk asks
 * again and reports it. All streams of all handles together stay within a share of the cache, so that a
 * window never evicts what it has just brought.
 */
import { setMaxListeners } from 'node:events';
import { PbsfsError } from '../errors.ts';
import type { CachedChunkReader } from './cached-chunk-reader.ts';
import { type ChunkMap, ReadAheadPlanner } from './read-ahead-planner.ts';

/** One for all: an error of its own for each file that is closed takes longer than closing it. */
const wasClosed = new PbsfsError('aborted', 'the file was closed');
/**
 * Least recently used, a chunk that waits to be read goes before all that were read since it came. As many as are
 * ahead come and are read meanwhile, so twice as many must fit, and those that the readers themselves wait for.
 */
const shareOfCache = 0.25;

/** The part of a cache that is for chunks brought ahead, shared by all prefetchers on it. */
export class PrefetchBudget {
  /** Most chunks ahead of one stream; 0 turns prefetching off. */
  readonly chunks: number;
  readonly #bytes: number;
  #streams = 0;

  constructor(options: { readonly chunks: number; readonly cacheBytes: number }) {
    this.chunks = options.chunks;
    this.#bytes = options.cacheBytes * shareOfCache;
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

export class Prefetcher implements Disposable {
  readonly #reader: CachedChunkReader;
  readonly #budget: PrefetchBudget;
  readonly #planner: ReadAheadPlanner;
  readonly #closed = new AbortController();
  #running = 0;

  constructor(reader: CachedChunkReader, budget: PrefetchBudget) {
    this.#reader = reader;
    this.#budget = budget;
    this.#planner = new ReadAheadPlanner(chunkMapOf(reader));
    // One listener for each chunk in flight.
    setMaxListeners(0, this.#closed.signal);
  }

  /** Tells of a read that was just started, so that its own chunks are in flight first. */
  onRead(offset: number, length: number): void {
    const { chunks, bytesPerStream: bytes } = this.#budget;
    const present = Math.min(length, this.#reader.size - offset);
    if (chunks === 0 || present <= 0 || this.#closed.signal.aborted) return;
    for (const i of this.#planner.plan(offset, present, { chunks, bytes })) this.#bring(i);
    this.#count(this.#planner.running);
  }

  /** Stops what is in flight. */
  [Symbol.dispose](): void {
    this.#closed.abort(wasClosed);
    this.#count(0);
  }

  #bring(i: number): void {
    if (this.#reader.isPresent(i)) return;
    this.#reader.bring(i, this.#closed.signal).catch(() => {});
  }

  #count(running: number): void {
    if (running === this.#running) return;
    this.#budget.changeStreams(running - this.#running);
    this.#running = running;
  }
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
