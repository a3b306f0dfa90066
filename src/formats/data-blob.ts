/**
 * Data blob: the one envelope of chunks and of `*.blob` files. Little-endian.
 *
 *    0   8   magic: plain, zstd, encrypted, encrypted and zstd
 *    8   4   CRC-32 of the payload
 *   12  16   IV          encrypted kinds only
 *   28  16   GCM tag     encrypted kinds only
 *   12 or 44 payload to the end: data, one zstd frame, or AES-256-GCM of either
 *
 * Source: PBS `pbs-datastore/src/data_blob.rs` and `file_formats.rs`.
 */
import { randomBytes } from 'node:crypto';
import {
  constants,
  crc32,
  type ZstdOptions,
  zstdCompressSync,
  zstdDecompress,
  zstdDecompressSync,
} from 'node:zlib';
import { PbsfsError } from '../errors.ts';
import { asBuffer } from './bytes.ts';
import { type CryptConfig, ivSize, tagSize } from './crypt-config.ts';

export type BlobKind = 'plain' | 'zstd' | 'encrypted' | 'encrypted-zstd';

/** Most plain bytes in a blob: `MAX_BLOB_SIZE` of PBS. */
export const maxBlobSize: number = 128 * 1024 * 1024;
/** Most plain bytes in a chunk: the largest chunk size that the backup protocol takes. */
export const maxChunkSize: number = 16 * 1024 * 1024;
/** Bytes before the payload of the kinds that are not encrypted. */
const plainHeaderSize = 12;
/** Bytes before the payload of the encrypted kinds. */
export const encryptedHeaderSize = 44;

const magicSize = 8;
/** Each is the start of the SHA-256 of a label of PBS's. */
const magics: Readonly<Record<BlobKind, Buffer>> = {
  plain: Buffer.from('42ab3807be8370a1', 'hex'),
  zstd: Buffer.from('31b958426fb6a37f', 'hex'),
  encrypted: Buffer.from('7b6785be222d4cf0', 'hex'),
  'encrypted-zstd': Buffer.from('e6591bbf0bbfd80b', 'hex'),
};
const kinds = Object.keys(magics) as readonly BlobKind[];

const crcOffset = 8;
const ivOffset = 12;
const tagOffset = 28;

/** The level of PBS's own clients. */
const zstdLevel = 1;
/** zlib's smallest output step. */
const minStep = constants.Z_MIN_CHUNK;
/** Output grows by this where the size is not known closely. */
const defaultStep = 64 * 1024;

/** True for the kinds that need a key. */
export function isEncryptedKind(kind: BlobKind): boolean {
  return kind === 'encrypted' || kind === 'encrypted-zstd';
}

function isZstdKind(kind: BlobKind): boolean {
  return kind === 'zstd' || kind === 'encrypted-zstd';
}

function headerSize(kind: BlobKind): number {
  return isEncryptedKind(kind) ? encryptedHeaderSize : plainHeaderSize;
}

/**
 * The kind of a stored blob; its header is complete.
 * @throws PbsfsError `corrupt` where it is too short or has no known magic.
 */
export function blobKind(raw: Uint8Array): BlobKind {
  if (raw.length < plainHeaderSize) {
    throw new PbsfsError('corrupt', `blob of ${raw.length} bytes is shorter than its header of 12`);
  }
  const magic = asBuffer(raw).subarray(0, magicSize);
  const kind = kinds.find((name) => magics[name].equals(magic));
  if (kind === undefined) {
    throw new PbsfsError('corrupt', `not a data blob: unknown magic ${magic.toString('hex')}`);
  }
  if (raw.length < headerSize(kind)) {
    throw new PbsfsError(
      'corrupt',
      `encrypted blob of ${raw.length} bytes is shorter than its header of 44`,
    );
  }
  return kind;
}

/**
 * Compares the stored CRC-32 with the payload.
 * @throws PbsfsError `corrupt`
 */
export function verifyBlobCrc(raw: Uint8Array): void {
  const payloadOffset = headerSize(blobKind(raw));
  const stored = asBuffer(raw).readUInt32LE(crcOffset);
  const computed = crc32(raw.subarray(payloadOffset));
  if (stored !== computed) {
    throw new PbsfsError(
      'corrupt',
      `blob CRC is ${hex32(computed)}, its header says ${hex32(stored)}`,
    );
  }
}

function hex32(value: number): string {
  return value.toString(16).padStart(8, '0');
}

export interface DecodeBlobOptions {
  /** Most plain bytes to give: the length of the chunk, or `maxBlobSize`. */
  readonly maxLength: number;
  /** Key for the encrypted kinds. */
  readonly crypt?: CryptConfig | undefined;
  /** Check the CRC first. Chunks leave it out: their digest is checked anyway. */
  readonly crc?: boolean;
}

/**
 * The plain bytes of a blob, decrypted and decompressed on the thread pool. A plain blob gives a view of
 * `raw`, with no copy.
 * @throws PbsfsError `corrupt`; `key-missing` where it is encrypted and `crypt` is absent.
 */
export async function decodeBlob(raw: Uint8Array, options: DecodeBlobOptions): Promise<Buffer> {
  const { kind, stored } = openBlob(raw, options);
  let payload = stored;
  if (isEncryptedKind(kind)) {
    const { iv, tag } = sealOf(raw);
    payload = await keyOf(options).decrypt(stored, iv, tag);
  }
  return isZstdKind(kind) ? unzstd(payload, options.maxLength) : payload;
}

/** The same at once, on the calling thread. @throws PbsfsError as `decodeBlob` */
export function decodeBlobSync(raw: Uint8Array, options: DecodeBlobOptions): Buffer {
  const { kind, stored } = openBlob(raw, options);
  let payload = stored;
  if (isEncryptedKind(kind)) {
    const { iv, tag } = sealOf(raw);
    payload = keyOf(options).decryptSync(stored, iv, tag);
  }
  return isZstdKind(kind) ? unzstdSync(payload, options.maxLength) : payload;
}

function openBlob(
  raw: Uint8Array,
  options: DecodeBlobOptions,
): { readonly kind: BlobKind; readonly stored: Buffer } {
  const kind = blobKind(raw);
  if (options.crc === true) verifyBlobCrc(raw);
  const stored = asBuffer(raw).subarray(headerSize(kind));
  if (!isZstdKind(kind)) checkLength(stored.length, options.maxLength);
  return { kind, stored };
}

function checkLength(length: number, maxLength: number): void {
  if (length > maxLength) {
    throw new PbsfsError(
      'corrupt',
      `blob holds ${length} bytes, at most ${maxLength} are expected`,
    );
  }
}

function keyOf({ crypt }: DecodeBlobOptions): CryptConfig {
  if (crypt === undefined) throw new PbsfsError('key-missing', 'encrypted, and no key was given');
  return crypt;
}

function sealOf(raw: Uint8Array): { readonly iv: Uint8Array; readonly tag: Uint8Array } {
  return {
    iv: raw.subarray(ivOffset, ivOffset + ivSize),
    tag: raw.subarray(tagOffset, tagOffset + tagSize),
  };
}

interface ZstdResult {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

function runZstd(frame: Buffer, options: ZstdOptions): Promise<ZstdResult> {
  return new Promise((resolve, reject) => {
    // With `info`, the callback gets the engine too, which knows how much of the input it took.
    zstdDecompress(frame, { ...options, info: true }, (error, result) => {
      if (error === null) resolve(result as unknown as ZstdResult);
      else reject(error);
    });
  });
}

function zstdOptions(maxLength: number): ZstdOptions {
  return {
    // One buffer for a chunk, a byte too large: once it is full, zlib takes a second one. Steps for a blob,
    // whose size is only bounded.
    chunkSize: maxLength <= maxChunkSize ? Math.max(maxLength + 1, minStep) : defaultStep,
    maxOutputLength: Math.max(maxLength, 1), // zlib refuses 0
  };
}

async function unzstd(frame: Buffer, maxLength: number): Promise<Buffer> {
  let result: ZstdResult;
  try {
    result = await runZstd(frame, zstdOptions(maxLength));
  } catch (cause) {
    throw zstdError(cause, maxLength);
  }
  return checkUnpacked(result, frame, maxLength);
}

function unzstdSync(frame: Buffer, maxLength: number): Buffer {
  let result: ZstdResult;
  try {
    const options = { ...zstdOptions(maxLength), info: true };
    result = zstdDecompressSync(frame, options) as unknown as ZstdResult;
  } catch (cause) {
    throw zstdError(cause, maxLength);
  }
  return checkUnpacked(result, frame, maxLength);
}

function checkUnpacked({ buffer, engine }: ZstdResult, frame: Buffer, maxLength: number): Buffer {
  const rest = frame.length - engine.bytesWritten;
  if (rest !== 0) {
    throw new PbsfsError('corrupt', `${rest} bytes follow the zstd frame in the blob`);
  }
  checkLength(buffer.length, maxLength);
  return buffer;
}

function zstdError(cause: unknown, maxLength: number): PbsfsError {
  const code = (cause as NodeJS.ErrnoException).code;
  if (code === 'ERR_BUFFER_TOO_LARGE') {
    return new PbsfsError('corrupt', `blob unpacks to more than the expected ${maxLength} bytes`);
  }
  const why = code === 'Z_BUF_ERROR' ? 'it is cut short' : 'it is damaged';
  return new PbsfsError('corrupt', `zstd frame of the blob cannot be unpacked: ${why}`, { cause });
}

export interface EncodeBlobOptions {
  /** Try zstd, and keep it where it is smaller. */
  readonly compress?: boolean;
  /** Encrypt. */
  readonly crypt?: CryptConfig | undefined;
  /** Random unless given. */
  readonly iv?: Uint8Array;
}

/**
 * `data` as a stored blob, CRC included.
 * @throws PbsfsError `usage` above 128 MiB.
 */
export function encodeBlob(data: Uint8Array, options: EncodeBlobOptions = {}): Buffer {
  if (data.length > maxBlobSize) {
    throw new PbsfsError(
      'usage',
      `${data.length} bytes do not fit into a blob, at most ${maxBlobSize} do`,
    );
  }
  const packed = options.compress === true ? compressIfSmaller(data) : undefined;
  if (options.crypt === undefined) {
    return assemble(packed === undefined ? 'plain' : 'zstd', [packed ?? data]);
  }
  const iv = options.iv ?? randomBytes(ivSize);
  const { tag, payload } = options.crypt.encrypt(packed ?? data, iv);
  return assemble(packed === undefined ? 'encrypted' : 'encrypted-zstd', [iv, tag, payload]);
}

function assemble(kind: BlobKind, parts: readonly Uint8Array[]): Buffer {
  const crc = Buffer.alloc(plainHeaderSize - crcOffset);
  const raw = Buffer.concat([magics[kind], crc, ...parts]);
  raw.writeUInt32LE(crc32(raw.subarray(headerSize(kind))), crcOffset);
  return raw;
}

function compressIfSmaller(data: Uint8Array): Buffer | undefined {
  const packed = zstdCompressSync(data, {
    params: { [constants.ZSTD_c_compressionLevel]: zstdLevel },
    // What does not fit into this first buffer is not smaller.
    chunkSize: Math.max(data.length, minStep),
  });
  return packed.length < data.length ? packed : undefined;
}
