/**
 * What all nodes of one tree share: the repository, the keys, the opened snapshots and the one chunk cache.
 * Handed to each node when it is made; there is no global.
 */
import { type ChunkResources, createChunkReader } from '../archives/image.ts';
import type { KeyRing } from '../archives/key-ring.ts';
import { type OpenedIndex, SnapshotArchives } from '../archives/snapshot-archives.ts';
import { withZeroOnDamage } from '../archives/zero-on-damage.ts';
import { AsyncLruCache } from '../chunks/async-lru-cache.ts';
import { ChunkCache } from '../chunks/chunk-cache.ts';
import { PrefetchBudget, Prefetcher } from '../chunks/prefetcher.ts';

import { formatError, isPbsfsError, PbsfsError, withContext } from '../errors.ts';
import { formatSnapshot, type Namespace, type SnapshotId } from '../formats/snapshot-path.ts';
import type { Logger } from '../log.ts';
import type { Repository } from '../repository/repository.ts';
import { Semaphore } from '../semaphore.ts';

import { type ArchivePlace, placeContext } from './archive-place.ts';
import { timeOfSeconds } from './attributes.ts';
import type { OpenFile, Time } from './node.ts';
import { backupTimeFormat, type TimeFormat } from './time-format.ts';

export interface TreeOptions {
  readonly keys: KeyRing;
  /** Namespace to start at; the root when absent. */
  readonly start?: Namespace;
  /** Chunks of 4 MiB that the shared cache holds, at least 1. */
  readonly cacheChunks: number;
  /** Chunks fetched and decoded at once, at least 1. */
  readonly concurrency: number;
  /** Most chunks brought ahead of one who reads forward; 0 turns it off. Default 12. */
  readonly prefetch?: number;
  readonly timeFormat?: TimeFormat;
  /** Show unfinished snapshots too. */
  readonly all?: boolean;
  /** What a read gives for bytes that cannot be verified: an error, or zeros with a warning. */
  readonly onError?: 'eio' | 'zero';
  /** How long a listing of groups or snapshots is taken for current. */
  readonly listingSeconds?: number;
  readonly logger: Logger;
}

/** New snapshots should be there when the administrator looks twice; a walk should not ask again. */
const defaultListingSeconds = 3;
/** Where whole-image restores stopped to gain in published measurements, between 8 and 16. */
const defaultPrefetch = 12;
/** Opened snapshots kept: a manifest and a key each. */
const maxOpenSnapshots = 256;
/** A dynamic entry: end offset and digest. */
const maxIndexEntryBytes = 40;
/** Indexes kept for those who open the same archive again: one for an 8 TiB disk has 64 MiB. */
const maxIndexBytes = 128 * 1024 * 1024;

export class TreeContext implements AsyncDisposable {
  readonly repository: Repository;
  readonly logger: Logger;
  readonly timeFormat: TimeFormat;
  readonly all: boolean;
  readonly listingSeconds: number;
  /** Time of the nodes that have none of their own. */
  readonly openedAt: Time;
  readonly #keys: KeyRing;
  readonly #onError: 'eio' | 'zero';
  readonly #chunks: ChunkResources;
  readonly #prefetch: PrefetchBudget;
  readonly #snapshots: AsyncLruCache<SnapshotArchives>;
  readonly #indexes: AsyncLruCache<OpenedIndex>;
  #damage = 0;

  constructor(repository: Repository, options: TreeOptions) {
    this.repository = repository;
    this.logger = options.logger;
    this.timeFormat = options.timeFormat ?? backupTimeFormat;
    this.all = options.all ?? false;
    this.listingSeconds = options.listingSeconds ?? defaultListingSeconds;
    this.openedAt = timeOfSeconds(Math.floor(Date.now() / 1000));
    this.#keys = options.keys;
    this.#onError = options.onError ?? 'eio';
    this.#chunks = {
      cache: new ChunkCache({ chunks: options.cacheChunks }),
      limiter: new Semaphore(options.concurrency),
    };
    this.#prefetch = new PrefetchBudget({
      chunks: options.prefetch ?? defaultPrefetch,
      cacheBytes: this.#chunks.cache.maxBytes,
    });
    this.#snapshots = new AsyncLruCache({ maxBytes: maxOpenSnapshots, sizeOf: () => 1 });
    this.#indexes = new AsyncLruCache({
      maxBytes: maxIndexBytes,
      sizeOf: ({ index }) => index.chunkCount * maxIndexEntryBytes + 1,
    });
  }

  /** Ranges that were read as zeros since the start. */
  get damage(): number {
    return this.#damage;
  }

  /** The snapshot, opened once however many of its archives are in use. */
  async archives(snapshot: SnapshotId, signal?: AbortSignal): Promise<SnapshotArchives> {
    try {
      return await this.#snapshots.get(
        formatSnapshot(snapshot),
        (loadSignal) => SnapshotArchives.open(this.repository, snapshot, this.#keys, loadSignal),
        signal,
      );
    } catch (error) {
      throw isPbsfsError(error, 'not-found') ? this.pruned(snapshot, error) : error;
    }
  }

  /** The error for a snapshot that was listed and is no longer there. */
  pruned(snapshot: SnapshotId, cause: unknown): PbsfsError {
    return new PbsfsError('stale', 'snapshot was removed since it was listed', {
      context: { snapshot: formatSnapshot(snapshot) },
      cause,
    });
  }

  /** Size of a chunked archive, and how much of it is data, without its key and without its chunks. */
  async measure(
    place: ArchivePlace,
    signal?: AbortSignal,
  ): Promise<{ size: number; dataSize: number }> {
    const archives = await this.archives(place.snapshot, signal);
    const opened = await this.#index(archives, place, signal);
    const reader = createChunkReader(archives, place.filename, opened, this.#chunks);
    return { size: reader.size, dataSize: reader.dataSize };
  }

  /**
   * Opens an image, or another archive, as its bytes.
   * @throws PbsfsError `key-missing`, `key-wrong`, `corrupt`, `stale`
   */
  async openChunked(place: ArchivePlace, signal?: AbortSignal): Promise<OpenFile> {
    const archives = await this.archives(place.snapshot, signal);
    const opened = await this.#index(archives, place, signal);
    await withContext(placeContext(place), async () => archives.cryptFor(opened.cryptMode));
    const lease = this.#chunks.cache.acquire();
    const reader = createChunkReader(archives, place.filename, opened, this.#chunks);
    const source = this.#onError === 'zero' ? withZeroOnDamage(reader, this.#onDamage) : reader;
    const prefetcher = new Prefetcher(reader, this.#prefetch);
    return {
      size: source.size,
      dataSize: source.dataSize,
      read: (offset, length, readSignal) => {
        const slices = source.read(offset, length, readSignal);
        prefetcher.onRead(offset, length);
        return slices;
      },
      nextData: (offset) => source.nextData(offset),
      nextHole: (offset) => source.nextHole(offset),
      chunks: reader,
      [Symbol.asyncDispose]: async () => {
        prefetcher[Symbol.dispose]();
        lease[Symbol.dispose]();
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.repository[Symbol.asyncDispose]();
  }

  async #index(
    archives: SnapshotArchives,
    place: ArchivePlace,
    signal?: AbortSignal,
  ): Promise<OpenedIndex> {
    const { snapshot, archive } = placeContext(place);
    return await this.#indexes.get(
      `${snapshot}/${archive}`,
      (loadSignal) => archives.openIndex(place.filename, loadSignal),
      signal,
    );
  }

  readonly #onDamage = (error: PbsfsError): void => {
    this.#damage += 1;
    this.logger('warn', `read as zeros: ${formatError(error)}`);
  };
}
