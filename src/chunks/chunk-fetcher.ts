/** From digest to plain bytes that can be trusted: fetched, decoded and verified, a bounded number at once. */
import { isPbsfsError, PbsfsError, toPbsfsError } from '../errors.ts';
import { type CryptConfig, plainDigest } from '../formats/crypt-config.ts';
import type { CryptMode } from '../formats/manifest.ts';
import type { SnapshotReader } from '../repository/repository.ts';
import type { Semaphore } from '../semaphore.ts';
import type { ExpectedChunk } from './decode-chunk.ts';
import { type ChunkDecoder, decodeHere } from './decoder-threads.ts';

export interface ChunkFetcherOptions {
  readonly reader: Pick<SnapshotReader, 'readChunk' | 'dropChunk'>;
  /** What the manifest says of the archive. */
  readonly cryptMode: CryptMode;
  /** The key of an archive that is encrypted; ignored for others. */
  readonly crypt?: CryptConfig | undefined;
  /** Bounds the chunks that are read and decoded at once, and so their memory. */
  readonly limiter: Semaphore;
  /** Default: on the calling thread. */
  readonly decoder?: ChunkDecoder | undefined;
}

export class ChunkFetcher {
  readonly isEncrypted: boolean;
  /** The key, for an encrypted archive only. */
  readonly crypt: CryptConfig | undefined;
  readonly #reader: Pick<SnapshotReader, 'readChunk' | 'dropChunk'>;
  readonly #cryptMode: CryptMode;
  readonly #limiter: Semaphore;
  readonly #decoder: ChunkDecoder;

  constructor(options: ChunkFetcherOptions) {
    this.#reader = options.reader;
    this.#cryptMode = options.cryptMode;
    this.isEncrypted = options.cryptMode === 'encrypt';
    this.crypt = this.isEncrypted ? options.crypt : undefined;
    this.#limiter = options.limiter;
    this.#decoder = options.decoder ?? decodeHere;
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
      const expected = { digest, length, paddedLength, cryptMode: this.#cryptMode };
      return await this.#limiter.run(() => this.#read(expected, signal), signal);
    } catch (error) {
      throw toPbsfsError(error).at({ digest: Buffer.from(digest).toString('hex') });
    }
  }

  async #read(expected: ExpectedChunk, signal?: AbortSignal): Promise<Buffer> {
    const { digest } = expected;
    for (;;) {
      const raw = await this.#reader.readChunk(digest, signal);
      try {
        return await this.#decoder.decode(raw, expected, this.crypt);
      } catch (error) {
        if (!isPbsfsError(error, 'corrupt')) throw error;
        const wasKeptNearby = await this.#reader.dropChunk?.(digest, raw);
        if (wasKeptNearby !== true) throw error;
      }
    }
  }

  /** The digest that a chunk of these plain bytes has in this archive. */
  digestOf(bytes: Uint8Array): Promise<Buffer> {
    return this.crypt === undefined ? plainDigest(bytes) : this.crypt.digest(bytes);
  }
}
