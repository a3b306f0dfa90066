/**
 * Stored files and chunks of one snapshot on a live server. Files come by REST, which takes no lock and starts
 * no task there; only chunks need a reader session, in which their indexes are made known first.
 */
import { type ErrorContext, isPbsfsError, PbsfsError, toPbsfsError } from '../../errors.ts';
import { archiveKind, isArchiveName } from '../../formats/archive-name.ts';
import { encryptedHeaderSize, maxBlobSize } from '../../formats/data-blob.ts';
import { formatSnapshot, type SnapshotId } from '../../formats/snapshot-path.ts';
import type { SnapshotReader } from '../repository.ts';
import { type IndexIdentity, identityOf } from './index-identity.ts';
import type { Listings } from './listings.ts';
import type { ReaderSession } from './reader-session.ts';
import type { SessionPool } from './session-pool.ts';

/** Compression is only kept where it makes a blob smaller, so nothing but the header comes on top. */
const maxStoredBlob = maxBlobSize + encryptedHeaderSize;
/** Enough for an image of 128 TiB: 32 bytes for every 4 MiB. */
const maxIndexLength = 1024 * 1024 * 1024;

export class PbsSnapshotReader implements SnapshotReader {
  readonly snapshot: SnapshotId;
  readonly #listings: Listings;
  readonly #sessions: SessionPool;
  /** Indexes that were read, whose chunks may be asked for. */
  readonly #indexes = new Map<string, IndexIdentity>();

  constructor(snapshot: SnapshotId, listings: Listings, sessions: SessionPool) {
    this.snapshot = snapshot;
    this.#listings = listings;
    this.#sessions = sessions;
  }

  async readFile(filename: string, signal?: AbortSignal): Promise<Buffer> {
    return await this.#inSnapshot({ archive: filename }, async () => {
      // The name may come from a manifest.
      if (!isArchiveName(filename)) {
        throw new PbsfsError('not-found', 'is not a name that an archive can have');
      }
      const isIndex = archiveKind(filename) !== 'blob';
      const limit = isIndex ? maxIndexLength : maxStoredBlob;
      const bytes = await this.#download(filename, limit, signal);
      if (isIndex) this.#indexes.set(filename, identityOf(bytes));
      return bytes;
    });
  }

  async readChunk(digest: Uint8Array, signal?: AbortSignal): Promise<Buffer> {
    return await this.#inSnapshot({}, () =>
      this.#sessions.use(
        this.snapshot,
        async (session) => {
          await this.#register(session);
          return (
            (await session.readChunk(digest, signal)) ??
            (await this.#readAgain(session, digest, signal))
          );
        },
        signal,
      ),
    );
  }

  /** The session is the pool's: other readers may use it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#indexes.clear();
  }

  async #download(filename: string, limit: number, signal?: AbortSignal): Promise<Buffer> {
    const bytes = await this.#listings.download(this.snapshot, filename, limit, signal);
    if (bytes.length > 0) return bytes;
    // No stored file is empty: a known S3 proxy answers so, having only the call of the session.
    return await this.#sessions.use(
      this.snapshot,
      (session) => session.download(filename, limit, signal),
      signal,
    );
  }

  /** Makes the chunks of every index readable; what hinders one index leaves the others alone. */
  async #register(session: ReaderSession): Promise<PbsfsError | undefined> {
    const all = [...this.#indexes].map(([filename, identity]) =>
      session.register(filename, identity),
    );
    let refusal: PbsfsError | undefined;
    for (const outcome of await Promise.allSettled(all)) {
      if (outcome.status === 'fulfilled') continue;
      const error = toPbsfsError(outcome.reason);
      if (isPbsfsError(error, 'unreachable', 'timeout', 'stale')) throw error;
      refusal = error;
    }
    return refusal;
  }

  /** The chunk was not allowed: perhaps the server forgot the indexes, so they are made known once more. */
  async #readAgain(
    session: ReaderSession,
    digest: Uint8Array,
    signal?: AbortSignal,
  ): Promise<Buffer> {
    for (const filename of this.#indexes.keys()) session.forget(filename);
    const refusal = await this.#register(session);
    const chunk = await session.readChunk(digest, signal);
    if (chunk !== undefined) return chunk;
    const message = 'the server does not hand out the chunk, though its index was asked for';
    throw refusal ?? new PbsfsError('failed', message);
  }

  async #inSnapshot<T>(context: ErrorContext, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw toPbsfsError(error).at({ snapshot: formatSnapshot(this.snapshot), ...context });
    }
  }
}
