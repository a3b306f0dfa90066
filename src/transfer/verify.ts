/**
 * Reads snapshots to check them, and goes on past what is bad:
 *
 *   manifest   CRC, form, signature (with the key)
 *   blob       size and SHA-256 of the manifest, CRC, that it can be decoded
 *   index      checksum and size of the manifest
 *   chunk      once however often it is used: crypt mode, decryption, decompression, digest, length
 *
 * Without the key of an encrypted snapshot the CRC of a chunk stands for all that, and no signature is checked.
 */
import type { KeyRing } from '../archives/key-ring.ts';
import { SnapshotArchives } from '../archives/snapshot-archives.ts';
import { ChunkCache } from '../chunks/chunk-cache.ts';
import { isPbsfsError, PbsfsError, toPbsfsError, withContext } from '../errors.ts';
import {
  archiveKind,
  clientLogName,
  findArchive,
  listArchives,
  serverFileName,
} from '../formats/archive-name.ts';
import { verifyBlobCrc } from '../formats/data-blob.ts';
import { formatSnapshot } from '../formats/snapshot-path.ts';
import type { Repository } from '../repository/repository.ts';
import { ChunkVerifier, Finding } from './verify-chunks.ts';
import { type BadStream, nameBadFiles } from './verify-files.ts';
import type { VerifyTarget } from './verify-targets.ts';
import { isFatal } from './walk.ts';

export interface VerifyOptions {
  readonly keys: KeyRing;
  /** Chunks read and decoded at once, at least 1. */
  readonly concurrency: number;
  readonly signal: AbortSignal;
  /** Told of what is bad, once a snapshot is done. */
  readonly onBad: (finding: Finding) => void;
  /** Told of each snapshot that needs a key which is not here, and why. */
  readonly onLocked: (reason: PbsfsError) => void;
  /** Told of each snapshot that was removed since it was listed. */
  readonly onGone: (error: PbsfsError) => void;
  readonly onProgress?: (totals: VerifyTotals) => void;
}

/** What was read so far. */
export interface VerifyTotals {
  readonly snapshots: number;
  /** Images, pxar streams, catalogs and blobs. */
  readonly archives: number;
  /** Different chunks. */
  readonly chunks: number;
  /** Those of them of which only the CRC could be checked. */
  readonly lockedChunks: number;
  /** Plain bytes of chunks and blobs. */
  readonly bytes: number;
}

/**
 * Verifies all targets, one snapshot after the other.
 * @throws PbsfsError `unreachable`, `aborted`, …; `usage` for a concurrency below 1
 */
export async function verifySnapshots(
  repository: Repository,
  targets: AsyncIterable<VerifyTarget>,
  options: VerifyOptions,
): Promise<VerifyTotals> {
  using verifier = new Verifier(repository, options);
  for await (const target of targets) await verifier.verify(target);
  return verifier.totals;
}

/** The walk through a damaged pxar archive goes forward. */
const walkCacheChunks = 4;

class Verifier implements Disposable {
  readonly totals = { snapshots: 0, archives: 0, chunks: 0, lockedChunks: 0, bytes: 0 };
  readonly #repository: Repository;
  readonly #options: VerifyOptions;
  readonly #chunks: ChunkVerifier;

  constructor(repository: Repository, options: VerifyOptions) {
    this.#repository = repository;
    this.#options = options;
    const { concurrency, signal } = options;
    this.#chunks = new ChunkVerifier({
      concurrency,
      signal,
      onChunk: (length, isLocked) => {
        this.totals.chunks++;
        if (isLocked) this.totals.lockedChunks++;
        this.#addBytes(length);
      },
    });
  }

  async verify(target: VerifyTarget): Promise<void> {
    const { keys, signal, onBad, onGone } = this.#options;
    const context = { snapshot: formatSnapshot(target.snapshot) };
    try {
      await using archives = await SnapshotArchives.open(
        this.#repository,
        target.snapshot,
        keys,
        signal,
      );
      await this.#verifySnapshot(archives, target.archive);
    } catch (error) {
      if (isFatal(error)) throw error;
      const known = toPbsfsError(error).at(context);
      if (isPbsfsError(known, 'not-found', 'stale')) {
        onGone(known);
        return;
      }
      onBad(new Finding(known));
    }
    this.totals.snapshots++;
  }

  [Symbol.dispose](): void {
    this.#chunks[Symbol.dispose]();
  }

  async #verifySnapshot(archives: SnapshotArchives, name: string | undefined): Promise<void> {
    const { signal, onBad } = this.#options;
    const isLocked = this.#checkKey(archives);
    const filenames = filesOf(archives, name);
    const bad = new Map<string, BadStream>();
    const findings = new Set<Finding>();
    for (const filename of filenames) {
      try {
        const stream = await this.#verifyFile(archives, filename, isLocked);
        if (stream === undefined) continue;
        bad.set(filename, stream);
        for (const finding of stream.findings.values()) findings.add(finding);
      } catch (error) {
        if (isFatal(error) || isPbsfsError(error, 'stale')) throw error;
        findings.add(new Finding(toPbsfsError(error)));
      }
    }
    const { decoder, limiter } = this.#chunks;
    const cache = new ChunkCache({ chunks: walkCacheChunks });
    for (const archive of listArchives(filenames)) {
      await nameBadFiles(archives, archive, bad, { cache, decoder, limiter }, signal);
    }
    for (const finding of findings) onBad(finding);
  }

  /** Whether the snapshot needs a key that is not here; says so. */
  #checkKey(archives: SnapshotArchives): boolean {
    const { files, unprotected } = archives.manifest;
    const isEncrypted = files.some(({ cryptMode }) => cryptMode === 'encrypt');
    if (!isEncrypted && unprotected.keyFingerprint === undefined) return false;
    try {
      archives.cryptFor('encrypt');
      return false;
    } catch (error) {
      const known = toPbsfsError(error);
      const reason = isEncrypted ? known : unsignedReason(known);
      const placed = reason.at({ snapshot: formatSnapshot(archives.snapshot) });
      if (isKeyError(known)) this.#options.onLocked(placed);
      else this.#options.onBad(new Finding(placed));
      return true;
    }
  }

  /** @returns the bad chunks, undefined where there are none. */
  async #verifyFile(
    archives: SnapshotArchives,
    filename: string,
    isLocked: boolean,
  ): Promise<BadStream | undefined> {
    const { signal } = this.#options;
    const context = { snapshot: formatSnapshot(archives.snapshot), archive: filename };
    return await withContext(context, async () => {
      if (archiveKind(filename) === 'blob') {
        await this.#verifyBlob(archives, filename);
        return undefined;
      }
      this.totals.archives++;
      const opened = await archives.openIndex(filename, signal);
      const findings = await this.#chunks.verify({
        archives,
        opened,
        context,
        isLocked: isLocked && opened.cryptMode === 'encrypt',
      });
      return findings.size === 0 ? undefined : { index: opened.index, findings };
    });
  }

  async #verifyBlob(archives: SnapshotArchives, filename: string): Promise<void> {
    const { signal } = this.#options;
    try {
      this.#addBytes((await archives.readBlob(filename, signal)).length);
    } catch (error) {
      // The log of the client is there or not, and in no manifest.
      if (filename === clientLogName && isPbsfsError(error, 'not-found')) return;
      this.totals.archives++;
      if (!isKeyError(error)) throw error;
      const raw = await archives.reader.readFile(filename, signal);
      verifyBlobCrc(raw);
      this.#addBytes(raw.length);
      return;
    }
    this.totals.archives++;
  }

  #addBytes(bytes: number): void {
    this.totals.bytes += bytes;
    this.#options.onProgress?.(this.totals);
  }
}

function filesOf(archives: SnapshotArchives, name: string | undefined): readonly string[] {
  const filenames = archives.manifest.files.map(({ filename }) => filename);
  if (name === undefined) return [...filenames, clientLogName];
  const archive = findArchive(name, [...filenames, clientLogName]);
  // The manifest itself, or a file that should not be there.
  if (archive === undefined) return [serverFileName(name)];
  return archive.split ? [archive.metadata, archive.payload] : [archive.filename];
}

function unsignedReason({ code, hint }: PbsfsError): PbsfsError {
  return new PbsfsError(code, 'signature of the manifest cannot be checked without its key', {
    ...(hint === undefined ? {} : { hint }),
  });
}

function isKeyError(error: unknown): boolean {
  return isPbsfsError(error, 'key-missing', 'key-wrong');
}
