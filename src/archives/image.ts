/** An archive behind an index (a disk image, a pxar stream, a catalog) as verified bytes at offsets. */
import { CachedChunkReader } from '../chunks/cached-chunk-reader.ts';
import { ChunkCache } from '../chunks/chunk-cache.ts';
import { ChunkFetcher } from '../chunks/chunk-fetcher.ts';
import { type ChunkDecoder, DecoderThreads } from '../chunks/decoder-threads.ts';
import { defaultPrefetch, PrefetchBudget, PrefetchingReader } from '../chunks/prefetcher.ts';
import { withContext } from '../errors.ts';
import type { ChunkIndex } from '../formats/chunk-index.ts';
import { formatSnapshot } from '../formats/snapshot-path.ts';
import type { SparseReadAt } from '../read-at.ts';
import { Semaphore } from '../semaphore.ts';
import type { OpenedIndex, SnapshotArchives } from './snapshot-archives.ts';

export interface ChunkResources {
  /** Shared by all archives that may hold the same chunks. */
  readonly cache: ChunkCache;
  /** Bounds the chunks in flight. */
  readonly limiter: Semaphore;
  /** Default: on the calling thread. */
  readonly decoder?: ChunkDecoder;
}

/**
 * The reader of one archive. It measures a locked one too; a key is only needed when bytes are read.
 * @param filename server name, for errors.
 */
export function createChunkReader(
  archives: SnapshotArchives,
  filename: string,
  { index, cryptMode }: OpenedIndex,
  { cache, limiter, decoder }: ChunkResources,
): CachedChunkReader {
  const crypt = archives.cryptIfKnown(cryptMode);
  return new CachedChunkReader({
    index,
    fetcher: new ChunkFetcher({ reader: archives.reader, cryptMode, crypt, limiter, decoder }),
    cache,
    context: { snapshot: formatSnapshot(archives.snapshot), archive: filename },
  });
}

export interface ImageOptions {
  /** Chunks of 4 MiB kept: 1 for sequential reading, 8 and more for random access. */
  readonly cacheChunks?: number;
  /** Chunks fetched and decoded at once. */
  readonly concurrency?: number;
  /** Most chunks brought ahead of one who reads forward, within a quarter of the cache; 0 turns it off. */
  readonly prefetch?: number;
}

/** An archive opened by itself, as its bytes. */
export interface Image extends SparseReadAt, Disposable {
  readonly index: ChunkIndex;
}

const defaultImageCacheChunks = 8;
const defaultConcurrency = 8;

/**
 * Opens one archive with a cache of its own: what a program needs that reads a single image.
 * @param filename server name, such as `drive-scsi0.img.fidx`.
 * @throws PbsfsError `not-found`, `corrupt`, `key-missing`, `key-wrong`; `usage` for options below 1
 */
export async function openImage(
  archives: SnapshotArchives,
  filename: string,
  options: ImageOptions = {},
): Promise<Image> {
  const concurrency = options.concurrency ?? defaultConcurrency;
  const cache = new ChunkCache({ chunks: options.cacheChunks ?? defaultImageCacheChunks });
  const limiter = new Semaphore(concurrency);
  const opened = await archives.openIndex(filename);
  await withContext({ snapshot: formatSnapshot(archives.snapshot), archive: filename }, async () =>
    archives.cryptFor(opened.cryptMode),
  );
  const decoder = new DecoderThreads();
  const reader = createChunkReader(archives, filename, opened, { cache, limiter, decoder });
  const lease = cache.acquire();
  const budget = new PrefetchBudget({
    chunks: options.prefetch ?? defaultPrefetch,
    cacheBytes: cache.maxBytes,
    concurrency,
  });
  return new OpenedImage(reader, budget, [lease, decoder]);
}

class OpenedImage extends PrefetchingReader implements Image {
  readonly index: ChunkIndex;
  readonly #resources: readonly Disposable[];

  constructor(reader: CachedChunkReader, budget: PrefetchBudget, resources: readonly Disposable[]) {
    super(reader, reader, budget);
    this.index = reader.index;
    this.#resources = resources;
  }

  override [Symbol.dispose](): void {
    super[Symbol.dispose]();
    for (const resource of this.#resources) resource[Symbol.dispose]();
  }
}
