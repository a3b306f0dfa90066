/**
 * The bytes of a file for a stream that has announced its size already: what is damaged is told, and zeros stand in
 * its place. Where damage starts and ends is found by trying, since a file knows nothing of the chunks it lies in.
 */
import { zeroBytes } from '../chunks/zero-chunks.ts';
import { isPbsfsError, type PbsfsError, toPbsfsError } from '../errors.ts';
import type { OpenFile } from '../tree/node.ts';
import { readAll, readFully } from './read-steps.ts';

/** Told of each range that is given as zeros, and why. */
export type OnDamage = (start: number, end: number, error: PbsfsError) => void;

/** The smallest chunk that PBS's chunker makes by any of its settings: what lies between two probes is lost too. */
const probeBytes = 64 * 1024;

/** All of `file`. @throws PbsfsError for anything but damage. */
export async function* readWithZeros(
  file: OpenFile,
  signal: AbortSignal,
  onDamage: OnDamage,
): AsyncGenerator<Uint8Array> {
  const salvager = new Salvager(file, signal, onDamage);
  const steps = readAll(file, signal, (start, end, error) => salvager.salvage(start, end, error));
  for await (const { slices } of steps) yield* slices;
}

class Salvager {
  readonly #file: OpenFile;
  readonly #signal: AbortSignal;
  readonly #onDamage: OnDamage;

  constructor(file: OpenFile, signal: AbortSignal, onDamage: OnDamage) {
    this.#file = file;
    this.#signal = signal;
    this.#onDamage = onDamage;
  }

  /** What can be read of a range that cannot be read as a whole, with zeros for the rest. */
  async salvage(start: number, end: number, cause: unknown): Promise<Uint8Array[]> {
    let error = toDamage(cause);
    const slices: Uint8Array[] = [];
    for (let at = start; at < end; ) {
      const bad = await this.#firstWhere(at, end, (to) => this.#isBroken(at, to + 1));
      if (bad > at) slices.push(...(await readFully(this.#file, at, bad, this.#signal)));
      if (bad === end) break;
      error = (await this.#failure(bad, bad + 1)) ?? error;
      at = await this.#endOfDamage(bad, end);
      slices.push(zeroBytes(at - bad));
      this.#onDamage(bad, at, error);
    }
    return slices;
  }

  async #endOfDamage(bad: number, end: number): Promise<number> {
    let probe = bad;
    while (probe < end && (await this.#isBroken(probe, probe + 1))) probe += probeBytes;
    const from = Math.max(bad, probe - probeBytes);
    const isWhole = async (at: number): Promise<boolean> => !(await this.#isBroken(at, at + 1));
    return await this.#firstWhere(from, Math.min(probe, end), isWhole);
  }

  /** The first position of `[start, end)` that passes; all behind it do. `end` where none does. */
  async #firstWhere(
    start: number,
    end: number,
    test: (at: number) => Promise<boolean>,
  ): Promise<number> {
    let low = start;
    let high = end;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (await test(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  async #isBroken(start: number, end: number): Promise<boolean> {
    return (await this.#failure(start, end)) !== undefined;
  }

  async #failure(start: number, end: number): Promise<PbsfsError | undefined> {
    try {
      await readFully(this.#file, start, end, this.#signal);
      return undefined;
    } catch (error) {
      return toDamage(error);
    }
  }
}

/** @throws what is no damage. */
function toDamage(error: unknown): PbsfsError {
  if (isPbsfsError(error, 'corrupt', 'chunk-missing')) return error;
  throw toPbsfsError(error);
}
