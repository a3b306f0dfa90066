/**
 * Where the chunks of a datastore lie: its own `.chunks`, then any further directory that was given, such
 * as a copy on another disk or what fsck put into `lost+found`.
 *
 *   ABCD/<64 hex>   as PBS stores them; ABCD are the first four digits
 *   <64 hex>        loose in one directory
 *
 * A file of zero bytes marks a chunk that an S3 datastore evicted from its local cache (or one lost in a
 * crash). `<64 hex>.N.bad` is what PBS found damaged and is never looked at.
 *
 * Source: PBS `pbs-datastore/src/chunk_store.rs`.
 */
import { isPbsfsError, PbsfsError } from '../../errors.ts';
import { encryptedHeaderSize, maxChunkSize, verifyBlobCrc } from '../../formats/data-blob.ts';
import { readWholeFile } from './read-only-files.ts';

/** Compression is only kept where it makes a chunk smaller, so nothing but the header comes on top. */
const maxStoredLength = maxChunkSize + encryptedHeaderSize;

export class ChunkDirectories {
  readonly #directories: readonly string[];

  /** @param directories in the order in which they are asked. */
  constructor(directories: readonly string[]) {
    this.#directories = directories;
  }

  /**
   * The stored chunk, from the first directory that has it. With several directories a copy whose CRC is
   * wrong is passed over for a better one further on.
   * @throws PbsfsError `chunk-missing`; `access-denied`, `failed` where that is what hides it; `corrupt`
   */
  async read(digest: Uint8Array, signal?: AbortSignal): Promise<Buffer> {
    const hex = Buffer.from(digest).toString('hex');
    const context = { digest: hex };
    let isMarked = false;
    let damaged: Buffer | undefined;
    let failure: PbsfsError | undefined;
    for (const path of this.#candidates(hex)) {
      try {
        const options = { maxLength: maxStoredLength, follow: true, signal };
        const raw = await readWholeFile(path, options);
        if (raw.length === 0) isMarked = true;
        else if (this.#directories.length === 1 || isIntact(raw)) return raw;
        else damaged ??= raw;
      } catch (error) {
        if (!isPbsfsError(error) || error.code === 'aborted') throw error;
        if (error.code !== 'not-found') failure ??= error.at(context);
      }
    }
    if (damaged !== undefined) return damaged;
    throw failure ?? missing(isMarked, context);
  }

  *#candidates(hex: string): Generator<string> {
    for (const directory of this.#directories) {
      yield `${directory}/${hex.slice(0, 4)}/${hex}`;
      yield `${directory}/${hex}`;
    }
  }
}

function isIntact(raw: Buffer): boolean {
  try {
    verifyBlobCrc(raw);
    return true;
  } catch {
    return false;
  }
}

function missing(isMarked: boolean, context: { readonly digest: string }): PbsfsError {
  if (isMarked) {
    return new PbsfsError('chunk-missing', 'chunk is not stored here, its file is empty', {
      context,
      hint: 'a datastore on S3 keeps only a part locally: read from its server or bucket; otherwise the chunk was lost in a crash',
    });
  }
  return new PbsfsError('chunk-missing', 'chunk is not in the datastore', {
    context,
    hint: 'if it is somewhere else, name that directory with --chunk-dir',
  });
}
