/**
 * From digest to plain bytes that can be trusted: stored chunk → crypt mode → decode → digest → length.
 *
 * The digest is that of the plain bytes, keyed for encrypted chunks. The magic says how a chunk is stored,
 * the manifest how it must be: otherwise a server could put plain chunks into an encrypted archive. The CRC is
 * not looked at where the digest fits, since it protects less.
 *
 * Source: PBS `pbs-client/src/remote_chunk_reader.rs`.
 */
import { isPbsfsError, PbsfsError, toPbsfsError } from '../errors.ts';
import { type CryptConfig, plainDigest } from '../formats/crypt-config.ts';
import { blobKind, decodeBlob, isEncryptedKind, verifyBlobCrc } from '../formats/data-blob.ts';
import type { CryptMode } from '../formats/manifest.ts';
import type { SnapshotReader } from '../repository/repository.ts';
import type { Semaphore } from '../semaphore.ts';

export interface ChunkFetcherOptions {
  readonly reader: Pick<SnapshotReader, 'readChunk'>;
  /** What the manifest says of the archive. */
  readonly cryptMode: CryptMode;
  /** The key of an archive that is encrypted; ignored for others. */
  readonly crypt?: CryptConfig | undefined;
  /** Bounds the chunks that are read and decoded at once, and so their memory. */
  readonly limiter: Semaphore;
}

export class ChunkFetcher {
  readonly isEncrypted: boolean;
  /** The key, for an encrypted archive only. */
  readonly crypt: CryptConfig | undefined;
  readonly #reader: Pick<SnapshotReader, 'readChunk'>;
  readonly #cryptMode: CryptMode;
  readonly #limiter: Semaphore;

  constructor(options: ChunkFetcherOptions) {
    this.#reader = options.reader;
    this.#cryptMode = options.cryptMode;
    this.isEncrypted = options.cryptMode === 'encrypt';
    this.crypt = this.isEncrypted ? options.crypt : undefined;
    this.#limiter = options.limiter;
  }

  /**
   * The `length` bytes of a chunk, verified. Never write into them.
   * @param paddedLength what a writer may have padded the chunk to; the padding is verified and cut off.
   * @throws PbsfsError `corrupt`, `chunk-missing`, `key-missing`, `stale`, `aborted`, …, with the digest.
   */
  async fetch(
    digest: Uint8Array,
    length: number,
    signal?: AbortSignal,
    paddedLength: number = length,
  ): Promise<Buffer> {
    try {
      if (this.isEncrypted && this.crypt === undefined) {
        throw new PbsfsError('key-missing', 'chunk is encrypted, and no key was given');
      }
      return await this.#limiter.run(async () => {
        const raw = await this.#reader.readChunk(digest, signal);
        this.#checkCryptMode(raw);
        const bytes = await this.#decode(raw, digest, paddedLength);
        return fitted(bytes, length, paddedLength);
      }, signal);
    } catch (error) {
      throw toPbsfsError(error).at({ digest: Buffer.from(digest).toString('hex') });
    }
  }

  /** The digest that a chunk of these plain bytes has in this archive. */
  digestOf(bytes: Uint8Array): Promise<Buffer> {
    return this.crypt === undefined ? plainDigest(bytes) : this.crypt.digest(bytes);
  }

  #checkCryptMode(raw: Buffer): void {
    const kind = blobKind(raw);
    if (isEncryptedKind(kind) === this.isEncrypted) return;
    throw new PbsfsError(
      'corrupt',
      `chunk is stored ${kind}, which does not fit the crypt mode '${this.#cryptMode}' of its archive`,
    );
  }

  async #decode(raw: Buffer, digest: Uint8Array, maxLength: number): Promise<Buffer> {
    try {
      const bytes = await decodeBlob(raw, { maxLength, crypt: this.crypt });
      const actual = await this.digestOf(bytes);
      if (actual.equals(digest)) return bytes;
      throw new PbsfsError(
        'corrupt',
        `chunk holds other data, of digest ${actual.toString('hex')}`,
      );
    } catch (error) {
      throw isPbsfsError(error, 'corrupt') ? withCrc(error, raw) : error;
    }
  }
}

/** Tells bytes that were damaged where they are stored from bytes that were never right. */
function withCrc(error: PbsfsError, raw: Buffer): PbsfsError {
  try {
    verifyBlobCrc(raw);
    return error;
  } catch (crcError) {
    const { message } = toPbsfsError(crcError);
    return new PbsfsError('corrupt', `chunk is damaged: ${message}; ${error.message}`, {
      cause: error,
    });
  }
}

function fitted(bytes: Buffer, length: number, paddedLength: number): Buffer {
  if (bytes.length === length) return bytes;
  if (bytes.length > length && bytes.length <= paddedLength) {
    // A copy, so that the padding does not stay in memory unaccounted.
    return Buffer.from(bytes.subarray(0, length));
  }
  throw new PbsfsError('corrupt', `chunk holds ${bytes.length} bytes, its index says ${length}`);
}
