/** A position over a `ReadAt`: what streams, tar writers and programs that seek want to have. */
import { Readable } from 'node:stream';
import { PbsfsError } from '../errors.ts';
import { type ReadAt, readBytes } from '../read-at.ts';
import { checkOffset } from './chunk-range.ts';

export type Whence = 'set' | 'current' | 'end';

/**
 * Bytes asked for at once while streaming. No more than the smallest chunk that is usual, a quarter of 4 MiB:
 * a step then touches at most one chunk that is not yet there, and even a cache of one chunk loads none twice.
 */
const step = 1024 * 1024;

/** For one user: a read starts where the one before has ended. */
export class SeekableChunkReader implements AsyncIterable<Uint8Array> {
  readonly #source: ReadAt;
  #position = 0;

  constructor(source: ReadAt) {
    this.#source = source;
  }

  get size(): number {
    return this.#source.size;
  }

  get position(): number {
    return this.#position;
  }

  /**
   * Moves to `offset` from the start, the current position or the end, at most to the end.
   * @returns the new position.
   * @throws PbsfsError `usage` before the start.
   */
  seek(offset: number, whence: Whence = 'set'): number {
    const origin = { set: 0, current: this.#position, end: this.size }[whence];
    const target = origin + offset;
    if (!Number.isInteger(offset) || target < 0) {
      throw new PbsfsError('usage', `cannot seek by ${offset} from ${whence} to ${target}`);
    }
    this.#position = Math.min(target, this.size);
    return this.#position;
  }

  /**
   * Up to `length` bytes: fewer only at the end. A read that fails does not move.
   * @throws PbsfsError as `ReadAt.read` does.
   */
  async read(length: number, signal?: AbortSignal): Promise<Buffer> {
    checkOffset(length, 'length');
    const bytes = await readBytes(this.#source, this.#position, length, signal);
    this.#position += bytes.length;
    return bytes;
  }

  /** Everything from the position on, in views that must not be written into. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const slices = await this.#next();
      if (slices.length === 0) return;
      yield* slices;
    }
  }

  /** The same as a stream. Destroying it stops the read under way. */
  stream(): Readable {
    const stopped = new AbortController();
    const stream = new Readable({
      read: () => {
        this.#next(stopped.signal).then(
          (slices) => {
            for (const slice of slices) stream.push(slice);
            if (slices.length === 0) stream.push(null);
          },
          (error: unknown) => stream.destroy(error instanceof Error ? error : undefined),
        );
      },
      destroy: (error, done) => {
        stopped.abort();
        done(error);
      },
    });
    return stream;
  }

  async #next(signal?: AbortSignal): Promise<readonly Uint8Array[]> {
    // In whole steps from the start, so that the steps of an image never straddle its chunks.
    const length = step - (this.#position % step);
    const slices = await this.#source.read(this.#position, length, signal);
    for (const slice of slices) this.#position += slice.length;
    return slices;
  }
}
