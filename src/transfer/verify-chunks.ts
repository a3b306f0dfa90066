/**
 * Reads chunks to check them, each once however many archives share it. A chunk is told by its digest, its length and
 * how it is stored, since each of them is checked.
 *
 * What was read is remembered as one short string a chunk, about 100 bytes with its place in a set: 100 MB for a
 * million chunks, which are 4 TiB of an image.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { throwIfAborted } from '../abort.ts';
import type { OpenedIndex, SnapshotArchives } from '../archives/snapshot-archives.ts';
import { ChunkFetcher } from '../chunks/chunk-fetcher.ts';
import { ChunkMemory } from '../chunks/chunk-memory.ts';
import { DecoderThreads } from '../chunks/decoder-threads.ts';
import { type ErrorContext, isPbsfsError, PbsfsError, toPbsfsError } from '../errors.ts';
import { blobKind, isEncryptedKind, verifyBlobCrc } from '../formats/data-blob.ts';
import { FixedIndex } from '../formats/fixed-index.ts';
import { Semaphore } from '../semaphore.ts';
import { JobPool } from './job-pool.ts';
import { isFatal } from './walk.ts';

/** Something that is not as it was backed up. */
export class Finding {
  /** What is wrong, with snapshot, archive, and for a chunk its digest and the first range that it stands for. */
  readonly error: PbsfsError;
  /** Paths in the pxar archive of the files that have bytes in it. */
  readonly files: Set<string> = new Set();
  /** Names, attributes or tables of the pxar archive lie in it. */
  hitsMetadata = false;

  constructor(error: PbsfsError) {
    this.error = error;
  }
}

export interface ArchiveToVerify {
  readonly archives: SnapshotArchives;
  readonly opened: OpenedIndex;
  /** Snapshot and archive. */
  readonly context: ErrorContext;
  /** Encrypted, and the key is not here: only the CRC tells good from bad. */
  readonly isLocked: boolean;
}

export interface ChunkVerifierOptions {
  /** Chunks read and decoded at once, at least 1. */
  readonly concurrency: number;
  readonly signal: AbortSignal;
  /** Told of each chunk that was read, good or bad. */
  readonly onChunk: (length: number, isLocked: boolean) => void;
}

interface ChunkToVerify {
  readonly digest: Buffer;
  readonly length: number;
  readonly paddedLength: number;
  readonly key: string;
}

/** Entries of an index gone through in one turn of the event loop: some milliseconds. */
const entriesPerTurn = 4096;

export class ChunkVerifier implements Disposable {
  readonly decoder: DecoderThreads = new DecoderThreads();
  readonly limiter: Semaphore;
  readonly #options: ChunkVerifierOptions;
  readonly #read = new ShardedSet();
  readonly #bad = new Map<string, PbsfsError>();

  /** @throws PbsfsError `usage` for a concurrency below 1 */
  constructor(options: ChunkVerifierOptions) {
    this.limiter = new Semaphore(options.concurrency);
    this.#options = options;
  }

  /**
   * Reads the chunks of an archive that were not read before.
   * @returns the bad ones, by their number in the index. Those of one digest share one finding.
   * @throws PbsfsError `unreachable`, `aborted`, …; `stale` where the snapshot is gone
   */
  async verify(archive: ArchiveToVerify): Promise<ReadonlyMap<number, Finding>> {
    const { archives, opened, isLocked } = archive;
    const { cryptMode } = opened;
    const fetcher = new ChunkFetcher({
      reader: archives.reader,
      cryptMode,
      crypt: archives.cryptIfKnown(cryptMode),
      limiter: this.limiter,
      decoder: this.decoder,
    });
    const pool = new JobPool(this.#options.concurrency);
    try {
      for await (const i of this.#entries(archive)) {
        const chunk = chunkAt(archive, i);
        if (!this.#read.add(chunk.key, chunk.digest)) continue;
        const read = isLocked
          ? () => this.#readLocked(archive, chunk)
          : () => this.#readWhole(fetcher, chunk);
        await pool.add(() => this.#check(chunk, isLocked, read));
      }
    } finally {
      await pool.end();
    }
    return await this.#findings(archive);
  }

  [Symbol.dispose](): void {
    this.decoder[Symbol.dispose]();
  }

  async #check(
    { key, digest, length }: ChunkToVerify,
    isLocked: boolean,
    read: () => Promise<void>,
  ): Promise<void> {
    try {
      await read();
    } catch (error) {
      if (isFatal(error) || isPbsfsError(error, 'stale')) {
        // Another snapshot may have it still.
        this.#read.delete(key, digest);
        throw error;
      }
      this.#bad.set(key, toPbsfsError(error));
    }
    this.#options.onChunk(length, isLocked);
  }

  async #readWhole(
    fetcher: ChunkFetcher,
    { digest, length, paddedLength }: ChunkToVerify,
  ): Promise<void> {
    const bytes = await fetcher.fetch(digest, length, this.#options.signal, paddedLength);
    new ChunkMemory(bytes).evict();
  }

  async #readLocked({ archives }: ArchiveToVerify, { digest }: ChunkToVerify): Promise<void> {
    try {
      const raw = await archives.reader.readChunk(digest, this.#options.signal);
      const kind = blobKind(raw);
      if (!isEncryptedKind(kind)) {
        throw new PbsfsError('corrupt', `chunk of an encrypted archive is stored ${kind}`);
      }
      verifyBlobCrc(raw);
    } catch (error) {
      throw toPbsfsError(error).at({ digest: digest.toString('hex') });
    }
  }

  async #findings(archive: ArchiveToVerify): Promise<ReadonlyMap<number, Finding>> {
    const found = new Map<number, Finding>();
    if (this.#bad.size === 0) return found;
    const { index } = archive.opened;
    const byKey = new Map<string, Finding>();
    for await (const i of this.#entries(archive)) {
      const { key, length } = chunkAt(archive, i);
      const error = this.#bad.get(key);
      if (error === undefined) continue;
      const place = { ...archive.context, offset: index.chunkStart(i), length };
      const finding = byKey.get(key) ?? new Finding(movedTo(error, place));
      byKey.set(key, finding);
      found.set(i, finding);
    }
    return found;
  }

  /** The numbers of an index, leaving room for signals and answers between them. */
  async *#entries({ opened }: ArchiveToVerify): AsyncGenerator<number> {
    for (let i = 0; i < opened.index.chunkCount; i++) {
      if (i % entriesPerTurn === 0) await nextTurn();
      throwIfAborted(this.#options.signal);
      yield i;
    }
  }
}

/** The error of a chunk for another place: it may name the snapshot that it was read for. */
function movedTo(
  { code, message, context, hint, cause }: PbsfsError,
  place: ErrorContext,
): PbsfsError {
  return new PbsfsError(code, message, {
    context: { ...context, ...place },
    ...(hint === undefined ? {} : { hint }),
    cause,
  });
}

function chunkAt({ opened, isLocked }: ArchiveToVerify, i: number): ChunkToVerify {
  const { index, cryptMode } = opened;
  const length = index.chunkEnd(i) - index.chunkStart(i);
  const paddedLength = index instanceof FixedIndex ? index.chunkSize : length;
  const digest = index.digest(i);
  const plainOrEncrypted = cryptMode === 'encrypt' ? 'e' : 'p';
  const mode = isLocked ? 'l' : plainOrEncrypted;
  const key = `${mode}${length}/${paddedLength}:${digest.toString('latin1')}`;
  return { digest, length, paddedLength, key };
}

/** A set of more than the 2^24 strings that one `Set` takes, parted by the first byte of a digest. */
class ShardedSet {
  readonly #shards = Array.from({ length: 256 }, () => new Set<string>());

  /** @returns false where it was there before. */
  add(key: string, digest: Buffer): boolean {
    const shard = this.#shard(digest);
    const { size } = shard;
    return shard.add(key).size > size;
  }

  delete(key: string, digest: Buffer): void {
    this.#shard(digest).delete(key);
  }

  #shard(digest: Buffer): Set<string> {
    const shard = this.#shards[digest[0] ?? 0];
    if (shard === undefined) throw new PbsfsError('bug', 'a byte is at most 255');
    return shard;
  }
}
