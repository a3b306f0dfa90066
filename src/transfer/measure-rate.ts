/**
 * A rate in steady state: work that is done at several places at once, for a time.
 *
 *   start ── ramp: each place has finished once ── window ── time is over ── the rest is broken off
 *
 * Only the window counts: at both ends fewer run than asked for.
 */
import { abortError } from '../abort.ts';

export interface RateOptions {
  readonly atOnce: number;
  /** Seconds that the measure takes, more where the work is slow. */
  readonly seconds: number;
  readonly signal?: AbortSignal | undefined;
}

/** Slow work gets so many times the seconds to finish twice at each place, and at least so many seconds. */
const patience = 10;

/**
 * @param work returns the bytes it did; the signal breaks it off.
 * @returns bytes per second; 0 where none was finished in time.
 * @throws PbsfsError `aborted`; whatever `work` throws.
 */
export async function measureRate(
  work: (signal: AbortSignal) => Promise<number>,
  { atOnce, seconds, signal }: RateOptions,
): Promise<number> {
  const over = new AbortController();
  const late = AbortSignal.timeout(Math.max(seconds, 1) * patience * 1000);
  const stop = AbortSignal.any([over.signal, late, ...(signal === undefined ? [] : [signal])]);
  const tally = new Tally(atOnce, seconds);
  const place = async (): Promise<void> => {
    while (!stop.aborted) {
      tally.add(await work(stop));
      if (tally.isEnough) over.abort();
    }
  };
  const places = Array.from({ length: atOnce }, async () => {
    try {
      await place();
    } catch (error) {
      if (stop.aborted) return;
      over.abort();
      throw error;
    }
  });
  for (const outcome of await Promise.allSettled(places)) {
    if (outcome.status === 'rejected') throw outcome.reason;
  }
  if (signal?.aborted) throw abortError(signal);
  return tally.rate;
}

/** What was finished so far, and when. */
class Tally {
  readonly #atOnce: number;
  readonly #endAt: number;
  readonly #startedAt = performance.now();
  #count = 0;
  #bytes = 0;
  #lastAt = 0;
  /** Where the window begins. */
  #ramp: { readonly bytes: number; readonly at: number } | undefined;

  constructor(atOnce: number, seconds: number) {
    this.#atOnce = atOnce;
    this.#endAt = this.#startedAt + seconds * 1000;
  }

  get isEnough(): boolean {
    return this.#lastAt >= this.#endAt && this.#count >= 2 * this.#atOnce;
  }

  add(bytes: number): void {
    this.#count++;
    this.#bytes += bytes;
    this.#lastAt = performance.now();
    if (this.#count === this.#atOnce) this.#ramp = { bytes: this.#bytes, at: this.#lastAt };
  }

  /** Bytes per second: of the window, or of all where it is too short. */
  get rate(): number {
    const hasWindow = this.#count >= 2 * this.#atOnce;
    const { bytes, at } = (hasWindow && this.#ramp) || { bytes: 0, at: this.#startedAt };
    return ((this.#bytes - bytes) / Math.max(this.#lastAt - at, 1)) * 1000;
  }
}
