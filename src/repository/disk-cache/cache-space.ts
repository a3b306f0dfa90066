/**
 * Keeps a cache directory within its bound, whoever else writes into it.
 *
 *   add(bytes) ── there is room ── write
 *              ── there is none ── remove what was used longest ago, then write
 *
 * The directory itself is the only record: sizes are counted, the mtime of a file is when it was last used. There is
 * no index to be torn by a kill and no lock to be left behind. It is counted again before a 32nd of the bound is
 * written, so by a sixteenth at most each further mount on the directory can pass the bound meanwhile.
 */
import { lstat, unlink } from 'node:fs/promises';
import { unlessAborted } from '../../abort.ts';
import { isPbsfsError } from '../../errors.ts';
import { type CacheFile, isErrno, listCacheFiles } from './cache-directory.ts';

/** Part of the bound that is written between two counts. */
const step = 1 / 32;
/** Some 20,000 files are counted in this time. Where it takes longer, what comes meanwhile is not kept. */
const patienceMs = 1000;
/** Part of the files that is set apart for removal: more than comes before the next count. */
const oldestPart = 1 / 16;
const minOldest = 16;
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
  /** What may still be written; below zero where others wrote more. */
  #free = 0;
  /** Let in since the last count began. */
  #sinceCount = 0;
  /** Let in and not yet written. */
  #pending = 0;
  /** What can be removed, that used longest ago at the end. */
  #oldest: CacheFile[] = [];
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
    if (bytes > this.#maxBytes || !(await this.#admit(bytes))) return;
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
    const mayWrite = this.#maxBytes * step;
    while (this.#sinceCount > mayWrite || bytes > this.#free) {
      if (this.#sinceCount <= mayWrite && (await this.#removeOldest())) continue;
      const isOurs = this.#count === undefined;
      if (!(await this.#counted())) return false;
      if (isOurs && bytes > this.#free && this.#oldest.length === 0) return false;
    }
    this.#free -= bytes;
    this.#pending += bytes;
    this.#sinceCount += bytes;
    // Early, so that nobody has to wait for it; a failure shows when somebody does.
    if (this.#sinceCount > mayWrite / 2) this.#startCount().done.catch(() => {});
    return true;
  }

  /** Whether there was something to remove. */
  async #removeOldest(): Promise<boolean> {
    const file = this.#oldest.pop();
    if (file === undefined) return false;
    if (await removeUnused(file)) this.#free += file.size;
    return true;
  }

  /** Whether a count was finished in time. */
  async #counted(): Promise<boolean> {
    const { done, patience } = this.#startCount();
    try {
      await unlessAborted(done, patience);
      return !this.#isClosed;
    } catch (error) {
      if (isPbsfsError(error, 'timeout')) return false;
      throw error;
    }
  }

  #startCount(): Count {
    this.#count ??= {
      done: this.#recount().finally(() => {
        this.#count = undefined;
      }),
      patience: AbortSignal.timeout(patienceMs),
    };
    return this.#count;
  }

  async #recount(): Promise<void> {
    // Perhaps not in the directory yet. What is counted twice only makes less of the room.
    const unseen = this.#pending;
    this.#sinceCount = 0;
    const chunks: CacheFile[] = [];
    let used = unseen;
    for await (const file of listCacheFiles(this.#directory)) {
      if (this.#isClosed) return;
      if (!file.isTemporary) chunks.push(file);
      else if (file.usedAt < Date.now() - leftBehindMs && (await removeUnused(file))) continue;
      used += file.size;
    }
    this.#free = this.#maxBytes - used - this.#sinceCount;
    const isNearlyFull = this.#free < 2 * step * this.#maxBytes;
    this.#oldest = isNearlyFull ? oldestOf(chunks) : [];
  }
}

/** A part of the files, that used longest ago last. Sorting hundreds of thousands of them would hold up everybody. */
function oldestOf(files: readonly CacheFile[]): CacheFile[] {
  const times = Float64Array.from(files, (file) => file.usedAt).sort();
  const last = times[Math.max(Math.ceil(files.length * oldestPart), minOldest)];
  const oldest = last === undefined ? [...files] : files.filter((file) => file.usedAt <= last);
  return oldest.sort((a, b) => b.usedAt - a.usedAt);
}

/** Whether the file was there, not used since it was counted, and is removed. */
async function removeUnused({ path, usedAt }: CacheFile): Promise<boolean> {
  try {
    if ((await lstat(path)).mtimeMs !== usedAt) return false;
    await unlink(path);
    return true;
  } catch (error) {
    // Another mount was faster.
    if (isErrno(error, 'ENOENT')) return false;
    throw error;
  }
}
