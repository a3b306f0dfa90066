/** An archive in memory that is read through a cache on disk, chunk by chunk, as an image is. */
import { randomBytes } from 'node:crypto';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { CachedChunkReader } from '../../../src/chunks/cached-chunk-reader.ts';
import { ChunkCache } from '../../../src/chunks/chunk-cache.ts';
import { ChunkFetcher } from '../../../src/chunks/chunk-fetcher.ts';
import type { CryptConfig } from '../../../src/formats/crypt-config.ts';
import type { Logger } from '../../../src/log.ts';
import { readExactly } from '../../../src/read-at.ts';
import { DiskCache } from '../../../src/repository/disk-cache/disk-cache.ts';
import { withDiskCache } from '../../../src/repository/disk-cache/with-disk-cache.ts';
import type { Repository, SnapshotReader } from '../../../src/repository/repository.ts';
import { Semaphore } from '../../../src/semaphore.ts';
import { fakeRepository } from '../../support/fake-repository.ts';
import { type MemoryArchive, memoryArchive } from '../../support/memory-archive.ts';

export const chunkSize = 8192;

export interface CachedArchive extends AsyncDisposable {
  readonly archive: MemoryArchive;
  readonly reader: SnapshotReader;
  /** What the administrator is told. */
  readonly log: readonly string[];
  /** Plain bytes of chunk `i`. */
  read(i: number): Promise<Buffer>;
  /** All chunks, one after the other. */
  readAll(): Promise<Buffer>;
}

interface CachedOptions {
  readonly maxBytes?: number;
  readonly crypt?: CryptConfig;
  /** What stands above the cache. */
  readonly wrap?: (repository: Repository) => Repository;
}

export function randomArchive(chunks: number, crypt?: CryptConfig): MemoryArchive {
  return memoryArchive(randomBytes(chunks * chunkSize), { cut: chunkSize, crypt });
}

export async function openCached(
  directory: string,
  archive: MemoryArchive,
  { maxBytes = 2 ** 30, crypt, wrap = (repository) => repository }: CachedOptions = {},
): Promise<CachedArchive> {
  const log: string[] = [];
  const logger: Logger = (level, message) => log.push(`${level} ${message}`);
  const cache = await DiskCache.open({ directory, maxBytes, logger });
  const inner = fakeRepository({ readChunk: archive.reader.readChunk });
  const repository = wrap(withDiskCache(inner, cache));
  const reader = await repository.openSnapshot({ namespace: [], type: 'vm', id: '1', time: 1 });
  const cryptMode = crypt === undefined ? 'none' : 'encrypt';
  const fetcher = new ChunkFetcher({ reader, cryptMode, crypt, limiter: new Semaphore(8) });
  const { index } = archive;
  const read = async (i: number): Promise<Buffer> => {
    // Nothing is in memory: each read goes to the disk.
    const source = new CachedChunkReader({ index, fetcher, cache: new ChunkCache({ chunks: 1 }) });
    return await readExactly(source, index.chunkStart(i), chunkSize);
  };
  return {
    archive,
    reader,
    log,
    read,
    async readAll() {
      const chunks: Buffer[] = [];
      for (let i = 0; i < index.chunkCount; i++) chunks.push(await read(i));
      return Buffer.concat(chunks);
    },
    [Symbol.asyncDispose]: () => repository[Symbol.asyncDispose](),
  };
}

/** The file that keeps a chunk. */
export function fileOf(directory: string, digest: string): string {
  return join(directory, digest.slice(0, 2), digest);
}

/** Digests of all that is kept. */
export function keptIn(directory: string): ReadonlySet<string> {
  return new Set(globSync('??/*', { cwd: directory }).map((path) => path.slice(3)));
}
