/**
 * Stored chunks on a local disk, keyed by digest, for all who read the same backups again. They lie there as the
 * repository gave them: what is encrypted stays encrypted.
 *
 * Nothing in it is trusted. Whoever decodes a chunk compares it with its digest, wherever it came from, and says
 * when it was wrong; then the file goes and the repository is asked. So neither a bad disk, nor another program, nor
 * a lying server whose chunks were kept can bring wrong bytes into a view.
 *
 * Why not a library: cacache and its kind hash every entry once more, keep an index of their own beside the content,
 * and have no bound. One file a chunk, its name the digest, its mtime the time of use, needs none of that.
 *
 * A cache must not hurt: what goes wrong with it is said once, and reading goes on without it.
 */
import { unlink, utimes } from 'node:fs/promises';
import { throwIfAborted } from '../../abort.ts';
import { isPbsfsError, PbsfsError } from '../../errors.ts';
import { encryptedHeaderSize, maxChunkSize } from '../../formats/data-blob.ts';
import type { Logger } from '../../log.ts';
import { readWholeFile } from '../datastore/read-only-files.ts';
import { chunkPath, isErrno, prepareCacheDirectory, writeChunkFile } from './cache-directory.ts';
import { CacheSpace } from './cache-space.ts';

export interface DiskCacheOptions {
  /** Made where it does not exist. */
  readonly directory: string;
  /** Bound of all files in it together. */
  readonly maxBytes: number;
  readonly logger: Logger;
}

/** Compression is only kept where it makes a chunk smaller, so nothing but the header comes on top. */
const maxLength = maxChunkSize + encryptedHeaderSize;
/** A disk that was full may have room again: tried so often. */
const pauseMs = 60_000;

export class DiskCache implements Disposable {
  readonly #directory: string;
  readonly #logger: Logger;
  readonly #space: CacheSpace;
  /** Chunks that `read` gave. */
  readonly #given = new WeakSet<Uint8Array>();
  /** Files that were wrong and cannot be removed. */
  readonly #ignored = new Set<string>();
  #pausedUntil = 0;
  #hasWarned = false;

  private constructor({ directory, maxBytes, logger }: DiskCacheOptions) {
    this.#directory = directory;
    this.#logger = logger;
    this.#space = new CacheSpace(directory, maxBytes);
  }

  /** @throws PbsfsError `usage` where the directory is none, or holds something else. */
  static async open(options: DiskCacheOptions): Promise<DiskCache> {
    const cache = new DiskCache(options);
    try {
      await prepareCacheDirectory(options.directory);
    } catch (error) {
      if (isPbsfsError(error)) throw error;
      if (isErrno(error, 'ENOTDIR')) {
        const context = { path: options.directory };
        throw new PbsfsError('usage', 'is not a directory', { context, cause: error });
      }
      cache.#pause(error);
    }
    return cache;
  }

  /** The stored chunk, unverified; undefined where it is not here. @throws PbsfsError `aborted`, `timeout` */
  async read(digest: Uint8Array, signal?: AbortSignal): Promise<Buffer | undefined> {
    const path = chunkPath(this.#directory, digest);
    if (this.#ignored.has(path)) return undefined;
    try {
      const raw = await readWholeFile(path, { maxLength, signal });
      const now = new Date();
      // Not possible in a cache that is read-only, and not needed there.
      await utimes(path, now, now).catch(() => {});
      this.#given.add(raw);
      return raw;
    } catch {
      // A file that cannot be read will be replaced.
      throwIfAborted(signal);
      return undefined;
    }
  }

  /** Keeps a stored chunk if it can. */
  async write(digest: Uint8Array, raw: Uint8Array): Promise<void> {
    if (performance.now() < this.#pausedUntil || raw.length > maxLength) return;
    const path = chunkPath(this.#directory, digest);
    try {
      await this.#space.add(raw.length, async () => {
        await writeChunkFile(path, raw);
        this.#ignored.delete(path);
      });
    } catch (error) {
      this.#pause(error);
    }
  }

  /**
   * Forgets a chunk that turned out to be wrong.
   * @param raw what was given or kept as it; its content is not looked at.
   * @returns whether it came from here.
   */
  async drop(digest: Uint8Array, raw: Uint8Array): Promise<boolean> {
    const path = chunkPath(this.#directory, digest);
    try {
      await unlink(path);
    } catch (error) {
      if (!isErrno(error, 'ENOENT')) this.#ignored.add(path);
    }
    return this.#given.delete(raw);
  }

  [Symbol.dispose](): void {
    this.#space.close();
  }

  #pause(error: unknown): void {
    this.#pausedUntil = performance.now() + pauseMs;
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    const why = error instanceof Error ? error.message : String(error);
    this.#logger('warn', `nothing more is kept in the cache ${this.#directory} for now: ${why}`);
  }
}
