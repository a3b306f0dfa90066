/**
 * Which chunks to bring before they are asked for, decided from the reads of one handle alone: no I/O here.
 *
 * Every read continues one of a few streams or starts a new one. A stream that goes on byte after byte for a
 * while, or from chunk to chunk twice, runs forward, and its window opens: 1 chunk, then twice as many with
 * each chunk that it enters. So what is brought in vain is never much more than what was read, and a reader
 * that jumps about starts streams that never open. Several readers of one handle, such as a virtual machine
 * and a copy beside it, are streams of their own.
 *
 * What a stream that runs has left behind is told too, one chunk late, since its requests overtake each other.
 */

/** What the planner has to know of an archive. */
export interface ChunkMap {
  readonly chunkCount: number;
  chunkStart(i: number): number;
  chunkEnd(i: number): number;
  chunkAt(offset: number): number;
  /** The first chunk ≥ `i` that is not known to be zeros, or `chunkCount`. */
  nextDataChunk(i: number): number;
}

/** Bounds of what one stream may have ahead of it. */
export interface ReadAheadLimit {
  readonly chunks: number;
  readonly bytes: number;
}

interface Stream {
  /** The furthest chunk that was read. */
  chunk: number;
  /** The next chunk with data behind it. */
  next: number;
  /** The furthest chunk that was planned. */
  planned: number;
  /** The first chunk that it was not said to have left. */
  behind: number;
  /** One past the last byte that was read. */
  end: number;
  /** Bytes read in sequence up to there, without the first read of the sequence. */
  sequential: number;
  /** How often it went on to the next chunk. */
  steps: number;
  /** Chunks to have ahead; 0 until it is clear that the stream runs. */
  window: number;
  /** When it was read last, in reads. */
  readAt: number;
}

/** Streams told apart in one handle: more than readers that usually share one. */
const maxStreams = 16;
/** The kernel reads 128 KiB ahead by itself even for a reader of a few bytes: that alone shows nothing. */
const sequentialBytes = 256 * 1024;
/** A step to the next chunk happens by chance; a second one in a row hardly. */
const convincingSteps = 2;
/** Before the first read. */
const unknownEnd = -1;
const nothing: readonly number[] = [];

function runsForward({ sequential, steps }: Stream): boolean {
  return sequential >= sequentialBytes || steps >= convincingSteps;
}

export class ReadAheadPlanner {
  readonly #map: ChunkMap;
  readonly #onLeft: (chunk: number) => void;
  readonly #streams: Stream[] = [];
  #reads = 0;

  /** @param onLeft told of each chunk with data that a running stream has left behind. */
  constructor(map: ChunkMap, onLeft: (chunk: number) => void = () => {}) {
    this.#map = map;
    this.#onLeft = onLeft;
  }

  /** How many streams run forward. */
  get running(): number {
    let running = 0;
    for (const stream of this.#streams) if (stream.window > 0) running++;
    return running;
  }

  /**
   * Notes a read of at least 1 byte within the archive.
   * @returns chunks to bring now, nearest first; no stream asks twice for one.
   */
  plan(offset: number, length: number, limit: ReadAheadLimit): readonly number[] {
    const first = this.#map.chunkAt(offset);
    const last = this.#map.chunkAt(offset + length - 1);
    const stream = this.#streamOf(first) ?? this.#start(last);
    stream.readAt = ++this.#reads;
    stream.sequential = offset === stream.end ? stream.sequential + length : 0;
    stream.end = offset + length;
    const window = stream.window;
    if (last > stream.chunk) this.#step(stream, last);
    if (window === 0 && runsForward(stream)) stream.window = 1;
    stream.window = Math.min(stream.window, limit.chunks);
    return stream.window === 0 ? nothing : this.#ahead(stream, limit.bytes);
  }

  #streamOf(first: number): Stream | undefined {
    return this.#streams.find(
      ({ chunk, next, window }) =>
        // Requests of one reader overtake each other by a little, so the chunk just left counts too.
        first <= next && (first >= chunk || (first === chunk - 1 && window > 0)),
    );
  }

  #start(chunk: number): Stream {
    const stream: Stream = {
      chunk,
      next: this.#map.nextDataChunk(chunk + 1),
      planned: chunk,
      behind: chunk,
      end: unknownEnd,
      sequential: 0,
      steps: 0,
      window: 0,
      readAt: 0,
    };
    if (this.#streams.length < maxStreams) this.#streams.push(stream);
    else this.#streams[this.#leastUseful()] = stream;
    return stream;
  }

  /** The oldest of those that do not run: a reader that jumps about must not push out the others. */
  #leastUseful(): number {
    const isAnyIdle = this.#streams.some((stream) => stream.window === 0);
    let oldest = -1;
    let oldestRead = Number.POSITIVE_INFINITY;
    for (const [i, { window, readAt }] of this.#streams.entries()) {
      if ((isAnyIdle && window > 0) || readAt >= oldestRead) continue;
      oldest = i;
      oldestRead = readAt;
    }
    return oldest;
  }

  #step(stream: Stream, chunk: number): void {
    if (stream.window > 0) this.#leave(stream);
    stream.chunk = chunk;
    stream.next = this.#map.nextDataChunk(chunk + 1);
    stream.steps++;
    stream.window *= 2;
  }

  #leave(stream: Stream): void {
    const { behind, chunk } = stream;
    for (let i = behind; i < chunk; i = this.#map.nextDataChunk(i + 1)) this.#onLeft(i);
    stream.behind = chunk;
  }

  #ahead(stream: Stream, maxBytes: number): readonly number[] {
    let plan: number[] | undefined;
    let bytes = 0;
    let chunk = stream.next;
    for (let ahead = 0; ahead < stream.window && chunk < this.#map.chunkCount; ahead++) {
      bytes += this.#map.chunkEnd(chunk) - this.#map.chunkStart(chunk);
      if (bytes > maxBytes) break;
      if (chunk > stream.planned) {
        plan ??= [];
        plan.push(chunk);
        stream.planned = chunk;
      }
      chunk = this.#map.nextDataChunk(chunk + 1);
    }
    return plan ?? nothing;
  }
}
