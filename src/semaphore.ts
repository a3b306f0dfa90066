/**
 * A bound on how many things run at once, first come first served. It keeps open files, requests and
 * chunks in flight below a figure that somebody chose.
 */
import { abortError, throwIfAborted } from './abort.ts';
import { PbsfsError } from './errors.ts';

export class Semaphore {
  #free: number;
  /** In order of arrival: a Set keeps that order and forgets one who gave up at once. */
  readonly #waiting = new Set<() => void>();

  /**
   * @param capacity actions at once, 1 or more.
   * @throws PbsfsError `usage`
   */
  constructor(capacity: number) {
    if (!Number.isInteger(capacity) || capacity < 1) {
      throw new PbsfsError('usage', `concurrency is ${capacity}, at least 1 is needed`);
    }
    this.#free = capacity;
  }

  /**
   * Runs `action` when its turn comes. The signal only ends the wait for the turn: `action` has to watch it
   * by itself.
   * @throws PbsfsError `aborted`, `timeout`, and whatever `action` throws.
   */
  async run<T>(action: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    throwIfAborted(signal);
    if (this.#free > 0) this.#free--;
    else await this.#turn(signal);
    try {
      return await action();
    } finally {
      this.#release();
    }
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const start = () => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        this.#waiting.delete(start);
        if (signal !== undefined) reject(abortError(signal));
      };
      this.#waiting.add(start);
      signal?.addEventListener('abort', leave, { once: true });
    });
  }

  /** The place goes straight to the next in line, so that nobody slips in between. */
  #release(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free++;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
