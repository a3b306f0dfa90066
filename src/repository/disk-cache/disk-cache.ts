/**
 * Stored chunks on a local disk, keyed by digest, for all who read the same backups again: raw as the
 * repository gave them, so what is encrypted there stays encrypted here.
 *
 * Nothing in it is trusted: whoever decodes a chunk compares it with its digest, whether it came from here or
 * from the repository, so neither a damaged disk nor a lying server can bring wrong bytes into a view.
 */
import { mkdir, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { encryptedHeaderSize, maxChunkSize } from '../../formats/data-blob.ts';
import type { Logger } from '../../log.ts';
import { readWholeFile } from '../datastore/read-only-files.ts';
import { prepareCacheDirectory, writeWhole } from './cache-directory.ts';

export interface DiskCacheOptions {
  readonly directory: string;
  /** Bound of all files together. */
  readonly maxBytes: number;
  readonly logger: Logger;
}

/** Compression is only kept where it makes a chunk smaller, so nothing but the header comes on top. */
const maxLength = maxChunkSize + encryptedHeaderSize;

export class DiskCache {
  readonly #directory: string;

  private constructor({ directory }: DiskCacheOptions) {
    this.#directory = directory;
  }

  /** @throws PbsfsError `usage` where the directory holds something else. */
  static async open(options: DiskCacheOptions): Promise<DiskCache> {
    await prepareCacheDirectory(options.directory);
    return new DiskCache(options);
  }

  /** The stored chunk, unverified; undefined where it is not here. */
  async read(digest: Uint8Array, signal?: AbortSignal): Promise<Buffer | undefined> {
    try {
      return await readWholeFile(this.#path(digest), { maxLength, signal });
    } catch {
      return undefined;
    }
  }

  async write(digest: Uint8Array, raw: Uint8Array): Promise<void> {
    const path = this.#path(digest);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeWhole(path, raw);
  }

  /** Forgets a chunk that turned out to be another. */
  async drop(digest: Uint8Array): Promise<void> {
    await unlink(this.#path(digest));
  }

  #path(digest: Uint8Array): string {
    const hex = Buffer.from(digest).toString('hex');
    return join(this.#directory, hex.slice(0, 2), hex);
  }
}
