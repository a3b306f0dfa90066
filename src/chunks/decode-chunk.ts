/**
 * From a stored chunk to plain bytes that can be trusted: crypt mode → decrypt, unpack → digest → length.
 *
 * The digest is that of the plain bytes, keyed for encrypted chunks. The magic says how a chunk is stored,
 * the manifest how it must be: otherwise a server could put plain chunks into an encrypted archive. The CRC is
 * not looked at where the digest fits, since it protects less.
 *
 * Source: PBS `pbs-client/src/remote_chunk_reader.rs`.
 */
import { hash } from 'node:crypto';
import { isPbsfsError, PbsfsError, toPbsfsError } from '../errors.ts';
import type { CryptConfig } from '../formats/crypt-config.ts';
import { blobKind, decodeBlobSync, isEncryptedKind, verifyBlobCrc } from '../formats/data-blob.ts';
import type { CryptMode } from '../formats/manifest.ts';

/** What the index and the manifest say of a chunk. */
export interface ExpectedChunk {
  /** 32 bytes. */
  readonly digest: Uint8Array;
  /** Plain bytes. */
  readonly length: number;
  /** What a writer may have padded the chunk to; the padding is verified and cut off. */
  readonly paddedLength: number;
  readonly cryptMode: CryptMode;
}

/**
 * Decodes and verifies on the calling thread. A chunk that is stored plain gives a view of `raw`.
 * @param crypt the key of an encrypted archive.
 * @throws PbsfsError `corrupt`, `key-missing`
 */
export function decodeChunk(raw: Buffer, expected: ExpectedChunk, crypt?: CryptConfig): Buffer {
  checkCryptMode(raw, expected.cryptMode);
  try {
    const bytes = decodeBlobSync(raw, { maxLength: expected.paddedLength, crypt });
    const digest = crypt === undefined ? hash('sha256', bytes, 'buffer') : crypt.digestSync(bytes);
    if (digest.equals(expected.digest)) return fitted(bytes, expected);
    throw new PbsfsError('corrupt', `chunk holds other data, of digest ${digest.toString('hex')}`);
  } catch (error) {
    throw isPbsfsError(error, 'corrupt') ? withCrc(error, raw) : error;
  }
}

function checkCryptMode(raw: Buffer, cryptMode: CryptMode): void {
  const kind = blobKind(raw);
  if (isEncryptedKind(kind) === (cryptMode === 'encrypt')) return;
  throw new PbsfsError(
    'corrupt',
    `chunk is stored ${kind}, which does not fit the crypt mode '${cryptMode}' of its archive`,
  );
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

function fitted(bytes: Buffer, { length, paddedLength }: ExpectedChunk): Buffer {
  if (bytes.length === length) return bytes;
  if (bytes.length > length && bytes.length <= paddedLength) {
    // A copy, so that the padding does not stay in memory unaccounted.
    return Buffer.from(bytes.subarray(0, length));
  }
  throw new PbsfsError('corrupt', `chunk holds ${bytes.length} bytes, its index says ${length}`);
}
