/**
 * How fast a repository gives one archive, each measure for about a second.
 *
 *   open         snapshot, manifest and index
 *   first byte   one chunk at a random place, verified: the median
 *   stored       chunks as they come, not decoded
 *   verified     chunks as a restore gets them, more and more of them at once
 */
import type { KeyRing } from '../archives/key-ring.ts';
import { type OpenedIndex, SnapshotArchives } from '../archives/snapshot-archives.ts';
import { ChunkFetcher } from '../chunks/chunk-fetcher.ts';
import { ChunkMemory } from '../chunks/chunk-memory.ts';
import { DecoderThreads } from '../chunks/decoder-threads.ts';
import { HoleMap } from '../chunks/hole-map.ts';
import { type ErrorContext, PbsfsError, withContext } from '../errors.ts';
import type { CryptConfig } from '../formats/crypt-config.ts';
import { FixedIndex } from '../formats/fixed-index.ts';
import { formatSnapshot, type SnapshotId } from '../formats/snapshot-path.ts';
import type { Repository } from '../repository/repository.ts';
import { Semaphore } from '../semaphore.ts';
import type { BenchmarkOptions, Figure } from './benchmark-machine.ts';
import { measureRate } from './measure-rate.ts';

/** An image or another archive of chunks. */
export interface ArchiveId {
  readonly snapshot: SnapshotId;
  /** Server name, such as `drive-scsi0.img.fidx`. */
  readonly filename: string;
}

/** From one at a time to where published restores gain nothing any more. */
const concurrencies = [1, 4, 8, 12, 16, 32];
const maxConcurrency = 32;
const storedConcurrency = 16;
/** A larger archive is sampled: 16 GiB of an image are enough for all measures. */
const maxChunks = 4096;
/** What comes so close to the best is as good, and takes less memory. */
const goodEnough = 0.95;

export class ArchiveBenchmark implements AsyncDisposable {
  /** Bytes of the archive. */
  readonly size: number;
  /** Snapshot and archive, for errors. */
  readonly #context: ErrorContext;
  readonly #archives: SnapshotArchives;
  readonly #opened: OpenedIndex;
  readonly #openMilliseconds: number;
  readonly #fetcher: ChunkFetcher;
  readonly #decoder: DecoderThreads;
  /** Different chunks that hold data, in random order. */
  readonly #chunks: readonly number[];
  /** Chunks that were asked for. */
  #asked = 0;

  private constructor(
    archives: SnapshotArchives,
    opened: OpenedIndex,
    context: ErrorContext,
    milliseconds: number,
  ) {
    const { index, cryptMode } = opened;
    const crypt = archives.cryptFor(cryptMode);
    this.size = index.size;
    this.#context = context;
    this.#archives = archives;
    this.#opened = opened;
    this.#openMilliseconds = milliseconds;
    this.#chunks = shuffled(dataChunks(opened, crypt));
    this.#decoder = new DecoderThreads();
    this.#fetcher = new ChunkFetcher({
      reader: archives.reader,
      cryptMode,
      crypt,
      limiter: new Semaphore(maxConcurrency),
      decoder: this.#decoder,
    });
  }

  /**
   * @throws PbsfsError `not-found`, `corrupt`, `key-missing`, `key-wrong`; `usage` where it holds only zeros
   */
  static async open(
    repository: Repository,
    keys: KeyRing,
    { snapshot, filename }: ArchiveId,
    signal?: AbortSignal,
  ): Promise<ArchiveBenchmark> {
    const startedAt = performance.now();
    const archives = await SnapshotArchives.open(repository, snapshot, keys, signal);
    try {
      const opened = await archives.openIndex(filename, signal);
      const context = { snapshot: formatSnapshot(snapshot), archive: filename };
      return await withContext(context, async () => {
        const milliseconds = performance.now() - startedAt;
        const benchmark = new ArchiveBenchmark(archives, opened, context, milliseconds);
        if (benchmark.chunkCount > 0) return benchmark;
        throw new PbsfsError('usage', 'holds nothing but zeros, which are never fetched');
      });
    } catch (error) {
      await archives[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Different chunks that are read. */
  get chunkCount(): number {
    return this.#chunks.length;
  }

  /** Whether chunks were read more than once, from whatever caches there are. */
  get hasRepeated(): boolean {
    return this.#asked > this.#chunks.length;
  }

  /** @throws PbsfsError what reading the archive throws; `timeout` where nothing comes. */
  async *figures(options: BenchmarkOptions): AsyncGenerator<Figure> {
    yield { name: 'open', atOnce: 1, milliseconds: this.#openMilliseconds };
    yield await this.#firstByte(options);
    yield await this.#rate('stored', storedConcurrency, options);
    for (const atOnce of concurrencies) yield await this.#rate('verified', atOnce, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#decoder[Symbol.dispose]();
    await this.#archives[Symbol.asyncDispose]();
  }

  async #firstByte(options: BenchmarkOptions): Promise<Figure> {
    const times: number[] = [];
    const step = async (signal: AbortSignal): Promise<number> => {
      const startedAt = performance.now();
      const length = await this.#readVerified(signal);
      times.push(performance.now() - startedAt);
      return length;
    };
    await withContext(this.#context, () => measureRate(step, { ...options, atOnce: 1 }));
    const median = times.sort((a, b) => a - b)[times.length >> 1];
    if (median !== undefined) return { name: 'first-byte', atOnce: 1, milliseconds: median };
    throw new PbsfsError('timeout', 'not one chunk came in time', { context: this.#context });
  }

  async #rate(
    name: 'stored' | 'verified',
    atOnce: number,
    options: BenchmarkOptions,
  ): Promise<Figure> {
    const read = name === 'stored' ? this.#readStored : this.#readVerified;
    const rate = withContext(this.#context, () => measureRate(read, { ...options, atOnce }));
    return { name, atOnce, bytesPerSecond: await rate };
  }

  readonly #readStored = async (signal: AbortSignal): Promise<number> => {
    const digest = this.#opened.index.digest(this.#nextChunk());
    return release(await this.#archives.reader.readChunk(digest, signal));
  };

  readonly #readVerified = async (signal: AbortSignal): Promise<number> => {
    const { index } = this.#opened;
    const i = this.#nextChunk();
    const length = index.chunkEnd(i) - index.chunkStart(i);
    const padded = index instanceof FixedIndex ? index.chunkSize : length;
    return release(await this.#fetcher.fetch(index.digest(i), length, signal, padded));
  };

  #nextChunk(): number {
    const i = this.#chunks[this.#asked % this.#chunks.length];
    this.#asked++;
    return i ?? 0;
  }
}

/** The least concurrency that is about as fast as the fastest; undefined where none was measured. */
export function bestConcurrency(figures: readonly Figure[]): number | undefined {
  const verified = figures.filter(({ name }) => name === 'verified');
  const best = Math.max(...verified.map(({ bytesPerSecond = 0 }) => bytesPerSecond));
  return verified.find(({ bytesPerSecond = 0 }) => bytesPerSecond >= goodEnough * best)?.atOnce;
}

/** Gives the memory back at once, as the cache of a mount does. */
function release(bytes: Buffer): number {
  const { length } = bytes;
  new ChunkMemory(bytes).evict();
  return length;
}

function dataChunks({ index, cryptMode }: OpenedIndex, crypt: CryptConfig | undefined): number[] {
  const holes = new HoleMap({ index, isEncrypted: cryptMode === 'encrypt', crypt });
  const byDigest = new Map<string, number>();
  const stride = Math.ceil(index.chunkCount / maxChunks);
  for (let i = 0; i < index.chunkCount; i += stride) {
    if (!holes.isZero(i)) byDigest.set(index.digest(i).toString('latin1'), i);
  }
  return [...byDigest.values()];
}

function shuffled(values: readonly number[]): readonly number[] {
  const keyed = values.map((value) => ({ value, key: Math.random() }));
  return keyed.sort((a, b) => a.key - b.key).map(({ value }) => value);
}
