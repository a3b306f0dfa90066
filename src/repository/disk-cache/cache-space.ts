/**
 * Keeps a cache directory within its bound, whoever else writes into it.
 *
 *   add(bytes) ── within the allowance? ── yes ── write
 *                                          no ─── count the directory, remove what was used longest ago,
 *                                                 take a new allowance
 *
 * The directory itself is the only record: sizes are counted, the mtime of a file is when it was last used. There is
 * no index to be torn by a kill and no lock to be left behind. The allowance is what may be written before counting
 * again: half of what is free, and at most a sixteenth of the bound. So two mounts keep it together, and each
 * further one can pass it by that sixteenth until somebody counts.
 */
import { unlink } from 'node:fs/promises';
import { unlessAborted } from '../../abort.ts';
import { isPbsfsError } from '../../errors.ts';
import { type CacheFile, isErrno, listCacheFiles } from './cache-directory.ts';

/** Part of the bound that is written before counting again, and that is made free at once. */
const step = 1 / 16;
/** A count of more than 20,000 files or so takes longer: what comes meanwhile is not kept. */
const patienceMs = 1000;
/** Nobody writes one chunk for so long: its writer was killed. */
const leftBehindMs = 3_600_000;

interface Count {
  readonly done: Promise<void>;
  /** Fires when it is not worth waiting any longer. */
  readonly patience: AbortSignal;
}

export class CacheSpace {
  readonly #directory: string;
  readonly #maxBytes: number;
  #allowance = 0;
  /** What the last count allowed. */
  #granted = 0;
  /** Let in and not yet written. */
  #pending = 0;
  /** Let in since the last count began. */
  #sinceCount = 0;
  #count: Count | undefined;
  #isClosed = false;

  constructor(directory: string, maxBytes: number) {
    this.#directory = directory;
    this.#maxBytes = maxBytes;
  }

  /**
   * Runs `write`, which adds so many bytes, unless there is no room to be had for them.
   * @throws what `write` throws; Node's errors where the directory cannot be counted or thinned out.
   */
  async add(bytes: number, write: () => Promise<void>): Promise<void> {
    if (!(await this.#admit(bytes))) return;
    this.#pending += bytes;
    try {
      await write();
    } finally {
      this.#pending -= bytes;
    }
  }

  /** Ends a count that is going on. */
  close(): void {
    this.#isClosed = true;
  }

  async #admit(bytes: number): Promise<boolean> {
    while (bytes > this.#allowance) {
      const isOurs = this.#count === undefined;
      if (!(await this.#counted(bytes))) return false;
      if (isOurs && bytes > this.#allowance) return false;
    }
    this.#allowance -= bytes;
    this.#sinceCount += bytes;
    // Early, so that nobody has to wait for it; a failure shows when somebody does.
    if (this.#allowance < this.#granted / 2) this.#startCount(bytes).done.catch(() => {});
    return true;
  }

  /** Whether a count was finished in time. */
  async #counted(bytes: number): Promise<boolean> {
    const { done, patience } = this.#startCount(bytes);
    try {
      await unlessAborted(done, patience);
      return !this.#isClosed;
    } catch (error) {
      if (isPbsfsError(error, 'timeout')) return false;
      throw error;
    }
  }

  #startCount(bytes: number): Count {
    this.#count ??= {
      done: this.#recount(bytes).finally(() => {
        this.#count = undefined;
      }),
      patience: AbortSignal.timeout(patienceMs),
    };
    return this.#count;
  }

  async #recount(wanted: number): Promise<void> {
    // Perhaps not in the directory yet; what is counted twice only makes the allowance smaller.
    const unseen = this.#pending;
    this.#sinceCount = 0;
    const files = await this.#list();
    let listed = files.reduce((sum, { size }) => sum + size, 0);
    const used = (): number => listed + unseen + this.#sinceCount;
    if (used() + wanted > this.#maxBytes) {
      listed -= await this.#removeOldest(files, used() + wanted - this.#maxBytes * (1 - step));
    }
    const free = Math.max(this.#maxBytes - used(), 0);
    const share = Math.min(free / 2, this.#maxBytes * step);
    this.#allowance = Math.max(share, Math.min(wanted, free));
    this.#granted = this.#allowance;
  }

  async #list(): Promise<CacheFile[]> {
    const files: CacheFile[] = [];
    for await (const file of listCacheFiles(this.#directory)) {
      if (this.#isClosed) break;
      const isLeftBehind = file.isTemporary && file.usedAt < Date.now() - leftBehindMs;
      if (isLeftBehind) await remove(file.path);
      else files.push(file);
    }
    return files;
  }

  /** @returns bytes that were made free, at least `wanted` where there are as many. */
  async #removeOldest(files: readonly CacheFile[], wanted: number): Promise<number> {
    let freed = 0;
    const chunks = files.filter((file) => !file.isTemporary);
    for (const { path, size } of chunks.sort((a, b) => a.usedAt - b.usedAt)) {
      if (freed >= wanted || this.#isClosed) break;
      await remove(path);
      freed += size;
    }
    return freed;
  }
}

/** Another mount may have been faster. */
async function remove(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
  }
}
