/**
 * What all nodes of one tree share: the repository, the keys, the opened snapshots and the one chunk cache.
 * Handed to each node when it is made; there is no global.
 */
import { openCatalog } from '../archives/catalog.ts';
import { type ChunkResources, createChunkReader } from '../archives/image.ts';
import type { KeyRing } from '../archives/key-ring.ts';
import { LinkCounts } from '../archives/pxar/link-counts.ts';
import { openPxar } from '../archives/pxar/pxar-archive.ts';
import { SnapshotArchives } from '../archives/snapshot-archives.ts';
import { withZeroOnDamage } from '../archives/zero-on-damage.ts';
import { AsyncLruCache } from '../chunks/async-lru-cache.ts';
import type { CachedChunkReader } from '../chunks/cached-chunk-reader.ts';
import { ChunkCache } from '../chunks/chunk-cache.ts';
import { DecoderThreads } from '../chunks/decoder-threads.ts';
import {
  defaultPrefetch,
  noPrefetch,
  PrefetchBudget,
  PrefetchingReader,
} from '../chunks/prefetcher.ts';

import { formatError, isPbsfsError, PbsfsError, withContext } from '../errors.ts';
import { catalogName } from '../formats/archive-name.ts';
import type { CryptMode } from '../formats/manifest.ts';
import { formatSnapshot, type Namespace, type SnapshotId } from '../formats/snapshot-path.ts';
import type { Logger } from '../log.ts';
import { borrow, type ReadAt, type SparseReadAt } from '../read-at.ts';
import type { Repository } from '../repository/repository.ts';
import { Semaphore } from '../semaphore.ts';

import { type ArchivePlace, type PxarPlace, placeContext } from './archive-place.ts';
import { timeOfSeconds } from './attributes.ts';
import type { Directory, OpenFile, OpenOptions, Time } from './node.ts';
import { pxarDirectory } from './pxar-tree.ts';
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
/** Opened snapshots kept: a manifest and a key each. */
const maxOpenSnapshots = 256;
/** pxar archives kept open: each remembers tables and listings of up to 32 MiB. */
const maxOpenPxars = 8;
/** Longer than what lies between two files of a copy, shorter than somebody waits to see memory come back. */
const cacheLingerSeconds = 10;
/** A dynamic entry: end offset and digest. */
const maxIndexEntryBytes = 40;
/** Indexes kept for those who open the same archive again: one for an 8 TiB disk has 64 MiB. */
const maxIndexBytes = 128 * 1024 * 1024;

/** Lines about ranges read as zeros that are not said twice: a bound of memory. */
const maxToldDamage = 1000;

/** An archive with its index, shared by all who have it open: it knows nothing of them. */
interface ChunkedArchive {
  readonly archives: SnapshotArchives;
  readonly cryptMode: CryptMode;
  readonly reader: CachedChunkReader;
  /** `reader`, or with zeros in place of what is damaged. */
  readonly source: SparseReadAt;
}

/** Asked for at each open of a file in an archive: not worth a date in words. */
function archiveKey({ snapshot, filename }: ArchivePlace): string {
  const { namespace, type, id, time } = snapshot;
  return `${namespace.join('/')}:${type}/${id}/${time}/${filename}`;
}

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
  readonly #decoder = new DecoderThreads();
  readonly #chunks: ChunkResources;
  readonly #prefetch: PrefetchBudget;
  readonly #snapshots: AsyncLruCache<SnapshotArchives>;
  readonly #opened: AsyncLruCache<ChunkedArchive>;
  readonly #pxars: AsyncLruCache<Directory>;
  #damage = 0;
  readonly #toldDamage = new Set<string>();

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
      cache: new ChunkCache({ chunks: options.cacheChunks, lingerSeconds: cacheLingerSeconds }),
      limiter: new Semaphore(options.concurrency),
      decoder: this.#decoder,
    };
    this.#prefetch = new PrefetchBudget({
      chunks: options.prefetch ?? defaultPrefetch,
      cacheBytes: this.#chunks.cache.maxBytes,
      concurrency: options.concurrency,
    });
    this.#snapshots = new AsyncLruCache({ maxBytes: maxOpenSnapshots, sizeOf: () => 1 });
    this.#opened = new AsyncLruCache({
      maxBytes: maxIndexBytes,
      sizeOf: ({ reader }) => reader.index.chunkCount * maxIndexEntryBytes + 1,
    });
    this.#pxars = new AsyncLruCache({ maxBytes: maxOpenPxars, sizeOf: () => 1 });
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
    const { reader } = await this.#chunked(place, signal);
    return { size: reader.size, dataSize: reader.dataSize };
  }

  /**
   * Opens an image, or another archive, as its bytes.
   * @throws PbsfsError `key-missing`, `key-wrong`, `corrupt`, `stale`
   */
  async openChunked(
    place: ArchivePlace,
    signal?: AbortSignal,
    { readAhead = true }: OpenOptions = {},
  ): Promise<OpenFile> {
    const { reader, source } = await this.#readable(place, signal);
    const lease = this.#chunks.cache.acquire();
    return new ChunkedFile(source, reader, readAhead ? this.#prefetch : noPrefetch, lease);
  }

  /** The root of a pxar archive, opened once however many look into it. */
  async pxar(place: PxarPlace, signal?: AbortSignal): Promise<Directory> {
    return await this.#pxars.get(
      archiveKey(place),
      (loadSignal) => this.#openPxar(place, loadSignal),
      signal,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#decoder[Symbol.dispose]();
    await this.repository[Symbol.asyncDispose]();
  }

  /** Holds no lease: what is looked up in directories stays in the cache as long as there is room. */
  async #openPxar(place: PxarPlace, signal: AbortSignal): Promise<Directory> {
    const open = async (filename: string, openSignal?: AbortSignal): Promise<ReadAt> =>
      (await this.#readable({ ...place, filename }, openSignal)).source;
    const metadata = await open(place.filename, signal);
    const { manifest } = await this.archives(place.snapshot, signal);
    const listed = manifest.files.find(({ filename }) => filename === place.payload);
    // Opened for contents alone: names are there without it, also where it is damaged.
    const payload = listed && {
      size: listed.size,
      read: async (offset: number, length: number, readSignal?: AbortSignal) =>
        (await open(listed.filename, readSignal)).read(offset, length, readSignal),
      borrow: async (offset: number, length: number, readSignal?: AbortSignal) =>
        borrow(await open(listed.filename, readSignal), offset, length, readSignal),
    };
    return await withContext(placeContext(place), async () => {
      const archive = await openPxar(metadata, payload, { logger: this.logger }, signal);
      const catalog = {
        archive: place.filename,
        open: async (openSignal?: AbortSignal) =>
          openCatalog(await open(catalogName, openSignal), openSignal),
      };
      return pxarDirectory(archive, {
        ino: place.ino,
        links: new LinkCounts(archive, place.hasCatalog ? { catalog } : {}),
        openStream: (stream, openSignal, openOptions) => {
          const filename = (stream === 'payload' ? place.payload : undefined) ?? place.filename;
          return this.openChunked({ ...place, filename }, openSignal, openOptions);
        },
      });
    });
  }

  /** An archive whose key is here. */
  async #readable(place: ArchivePlace, signal?: AbortSignal): Promise<ChunkedArchive> {
    const archive = await this.#chunked(place, signal);
    const { archives, cryptMode } = archive;
    await withContext(placeContext(place), async () => archives.cryptFor(cryptMode));
    return archive;
  }

  async #chunked(place: ArchivePlace, signal?: AbortSignal): Promise<ChunkedArchive> {
    return await this.#opened.get(
      archiveKey(place),
      async (loadSignal) => {
        const archives = await this.archives(place.snapshot, loadSignal);
        const opened = await archives.openIndex(place.filename, loadSignal);
        const reader = createChunkReader(archives, place.filename, opened, this.#chunks);
        const source = this.#onError === 'zero' ? withZeroOnDamage(reader, this.#onDamage) : reader;
        return { archives, cryptMode: opened.cryptMode, reader, source };
      },
      signal,
    );
  }

  readonly #onDamage = (error: PbsfsError): void => {
    this.#damage += 1;
    const line = formatError(error);
    // The same range is read again and again, in small pieces.
    if (this.#toldDamage.has(line)) return;
    if (this.#toldDamage.size >= maxToldDamage) this.#toldDamage.clear();
    this.#toldDamage.add(line);
    this.logger('warn', `read as zeros: ${line}`);
  };
}

class ChunkedFile extends PrefetchingReader implements OpenFile {
  readonly chunks: CachedChunkReader;
  readonly #lease: Disposable;

  constructor(
    source: SparseReadAt,
    reader: CachedChunkReader,
    budget: PrefetchBudget,
    lease: Disposable,
  ) {
    super(source, reader, budget);
    this.chunks = reader;
    this.#lease = lease;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this[Symbol.dispose]();
    this.#lease[Symbol.dispose]();
  }
}
