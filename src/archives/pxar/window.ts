/**
 * A window on a metadata stream: the bytes read last, so that decoding item after item does not ask the
 * source for each. It reads little where it jumps and more where it goes on, up to `maxRead`.
 */
import { setImmediate } from 'node:timers/promises';
import { throwIfAborted } from '../../abort.ts';
import { PbsfsError } from '../../errors.ts';
import { type ReadAt, readExactly } from '../../read-at.ts';
import { isDamage } from './damage.ts';

/** Holds name, stat and payload header of nearly every entry. */
const firstRead = 512;
/** Beyond this a single read costs no less. */
const maxRead = 256 * 1024;
/** A pass of millions of entries over a source in memory would leave nobody else a turn, not even an abort. */
const turnEvery = 64 * 1024;

export class Window {
  /** What was read; `start` is the position of its first byte. */
  bytes: Buffer = Buffer.alloc(0);
  start = 0;
  readonly #source: ReadAt;
  readonly #signal: AbortSignal | undefined;
  #reads = firstRead;
  #sinceTurn = 0;

  constructor(source: ReadAt, signal?: AbortSignal) {
    this.#source = source;
    this.#signal = signal;
  }

  get size(): number {
    return this.#source.size;
  }

  has(position: number, length: number): boolean {
    return position >= this.start && position + length <= this.start + this.bytes.length;
  }

  /**
   * Moves on to `position`, at least `length` bytes.
   * @throws PbsfsError `corrupt` where the stream ends before, `aborted`, and whatever the source throws.
   */
  async load(position: number, length: number): Promise<void> {
    const left = this.size - position;
    if (length > left) {
      throw new PbsfsError('corrupt', `the archive ends after ${this.size} bytes`, {
        context: { offset: position },
      });
    }
    const held = this.bytes.length;
    const goesOn = held > 0 && position >= this.start && position <= this.start + held;
    this.#reads = goesOn ? Math.min(this.#reads * 2 || firstRead, maxRead) : firstRead;
    const wanted = Math.min(Math.max(length, this.#reads), left);
    this.bytes = await this.#read(position, length, wanted);
    this.start = position;
    this.#sinceTurn += wanted;
    if (this.#sinceTurn < turnEvery) return;
    this.#sinceTurn = 0;
    await setImmediate();
    throwIfAborted(this.#signal);
  }

  /** A chunk that is damaged, or missing, must not take its neighbours along. */
  async #read(position: number, length: number, wanted: number): Promise<Buffer> {
    try {
      return await readExactly(this.#source, position, wanted, this.#signal);
    } catch (error) {
      if (wanted === length || !isDamage(error)) throw error;
      this.#reads = 0;
      return await readExactly(this.#source, position, length, this.#signal);
    }
  }

  /** A view of `[position, position + length)`, which is there: see `has`. */
  slice(position: number, length: number): Buffer {
    const at = position - this.start;
    return this.bytes.subarray(at, at + length);
  }
}
