/** Runs a bounded number of jobs at once, started in the order in which they are added. */
import { PbsfsError } from '../errors.ts';

export class JobPool {
  readonly #limit: number;
  readonly #running = new Set<Promise<void>>();
  #failure: { readonly error: unknown } | undefined;

  /** @throws PbsfsError `usage` for a limit below 1. */
  constructor(limit: number) {
    if (!Number.isInteger(limit) || limit < 1) {
      throw new PbsfsError('usage', `${limit} files at once, at least 1 is needed`);
    }
    this.#limit = limit;
  }

  /**
   * Waits for a free place and starts the job. What a job throws is thrown by the next `add` or by `end`.
   */
  async add(job: () => Promise<void>): Promise<void> {
    while (this.#running.size >= this.#limit) await Promise.race(this.#running);
    if (this.#failure !== undefined) throw this.#failure.error;
    const running = job()
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Waits for all that run. */
  async end(): Promise<void> {
    await Promise.all(this.#running);
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}
