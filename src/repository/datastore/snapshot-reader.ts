/** Stored files and chunks of one snapshot in a datastore directory. */
import { type ErrorContext, isPbsfsError, PbsfsError, toPbsfsError } from '../../errors.ts';
import { archiveKind, isArchiveName } from '../../formats/archive-name.ts';
import { encryptedHeaderSize, maxBlobSize } from '../../formats/data-blob.ts';
import { formatSnapshot, type SnapshotId } from '../../formats/snapshot-path.ts';
import type { SnapshotReader } from '../repository.ts';
import type { ChunkDirectories } from './chunk-directories.ts';
import { pathKind, readWholeFile } from './read-only-files.ts';

/** Compression is only kept where it makes a blob smaller, so nothing but the header comes on top. */
export const maxStoredBlobLength: number = maxBlobSize + encryptedHeaderSize;
/** Enough for an image of 128 TiB: 32 bytes for every 4 MiB. */
const maxIndexLength = 1024 * 1024 * 1024;

export class DatastoreSnapshotReader implements SnapshotReader {
  readonly snapshot: SnapshotId;
  readonly #directory: string;
  readonly #chunks: ChunkDirectories;

  constructor(snapshot: SnapshotId, directory: string, chunks: ChunkDirectories) {
    this.snapshot = snapshot;
    this.#directory = directory;
    this.#chunks = chunks;
  }

  async readFile(filename: string, signal?: AbortSignal): Promise<Buffer> {
    const context = { snapshot: formatSnapshot(this.snapshot), archive: filename };
    // The name may come from a manifest and becomes a path here.
    if (!isArchiveName(filename)) {
      throw new PbsfsError('not-found', 'is not a name that an archive can have', { context });
    }
    const maxLength = archiveKind(filename) === 'blob' ? maxStoredBlobLength : maxIndexLength;
    try {
      return await readWholeFile(`${this.#directory}/${filename}`, { maxLength, signal });
    } catch (error) {
      throw await this.#explained(error, context);
    }
  }

  async readChunk(digest: Uint8Array, signal?: AbortSignal): Promise<Buffer> {
    try {
      return await this.#chunks.read(digest, signal);
    } catch (error) {
      throw await this.#explained(error, { snapshot: formatSnapshot(this.snapshot) });
    }
  }

  /** Nothing is held open. */
  async [Symbol.asyncDispose](): Promise<void> {}

  /** What is absent because its snapshot was pruned meanwhile is `stale`. */
  async #explained(error: unknown, context: ErrorContext): Promise<PbsfsError> {
    const known = toPbsfsError(error).at(context);
    if (!isPbsfsError(known, 'not-found', 'chunk-missing')) return known;
    if ((await pathKind(this.#directory)) === 'directory') return known;
    return new PbsfsError('stale', 'snapshot was removed since it was opened', {
      context: known.context,
      cause: error,
    });
  }
}
