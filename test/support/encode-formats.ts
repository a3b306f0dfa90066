/**
 * Test-only encoders of blobs, indexes and manifests, written from the format descriptions and not from
 * `src/formats/`, so that each checks the other. Everything is deterministic: IVs, UUIDs and times are fixed.
 */
import { createCipheriv, createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import { constants, crc32, zstdCompressSync } from 'node:zlib';

export type TestBlobKind = 'plain' | 'zstd' | 'encrypted' | 'encrypted-zstd';
export type TestCryptMode = 'none' | 'encrypt' | 'sign-only';

const blobMagic: Readonly<Record<TestBlobKind, string>> = {
  plain: '42ab3807be8370a1',
  zstd: '31b958426fb6a37f',
  encrypted: '7b6785be222d4cf0',
  'encrypted-zstd': 'e6591bbf0bbfd80b',
};

/** The key 00 01 … 1f of the published vectors. */
export const vectorKey: Buffer = Buffer.from(Array.from({ length: 32 }, (_, i) => i));
/** Another key. */
export const otherKey: Buffer = Buffer.alloc(32, 0xa5);

const vectorIv = Buffer.from(Array.from({ length: 16 }, (_, i) => 0x10 + i));
const vectorUuid = Buffer.from(Array.from({ length: 16 }, (_, i) => i));
const vectorTime = 1_593_179_765;

export function sha256(...parts: readonly Uint8Array[]): Buffer {
  const digest = createHash('sha256');
  for (const part of parts) digest.update(part);
  return digest.digest();
}

export function idKeyOf(key: Uint8Array): Buffer {
  return pbkdf2Sync(key, '_id_key', 10, 32, 'sha256');
}

/** Long colon form. */
export function fingerprintOf(key: Uint8Array): string {
  const label = sha256(Buffer.from('Proxmox Backup Encryption Key Fingerprint'));
  const hex = sha256(label, idKeyOf(key)).toString('hex');
  return (hex.match(/../g) ?? []).join(':');
}

/** Digest of a chunk, keyed where `key` is given. */
export function chunkDigest(data: Uint8Array, key?: Uint8Array): Buffer {
  return key === undefined ? sha256(data) : sha256(data, idKeyOf(key));
}

/** A stored blob of exactly this kind, whether or not it pays. The encrypted kinds need `key`. */
export function encodeTestBlob(
  data: Uint8Array,
  kind: TestBlobKind = 'plain',
  key: Uint8Array = vectorKey,
  iv: Uint8Array = vectorIv,
): Buffer {
  let payload: Uint8Array = data;
  if (kind === 'zstd' || kind === 'encrypted-zstd') {
    payload = zstdCompressSync(data, { params: { [constants.ZSTD_c_compressionLevel]: 1 } });
  }
  const sealed: Uint8Array[] = [];
  if (kind === 'encrypted' || kind === 'encrypted-zstd') {
    const cipher = createCipheriv('aes-256-gcm', key, iv);
    payload = Buffer.concat([cipher.update(payload), cipher.final()]);
    sealed.push(iv, cipher.getAuthTag());
  }
  const crc = Buffer.alloc(4);
  crc.writeUInt32LE(crc32(payload));
  return Buffer.concat([Buffer.from(blobMagic[kind], 'hex'), crc, ...sealed, payload]);
}

export interface TestIndex {
  /** The file. */
  readonly bytes: Buffer;
  /** As it stands in header and manifest. */
  readonly csum: Buffer;
}

function indexFile(magic: string, entries: Buffer, fields: readonly number[]): TestIndex {
  const header = Buffer.alloc(4096);
  const csum = sha256(entries);
  header.write(magic, 'hex');
  vectorUuid.copy(header, 8);
  header.writeBigInt64LE(BigInt(vectorTime), 24);
  csum.copy(header, 32);
  for (const [i, field] of fields.entries()) header.writeBigUInt64LE(BigInt(field), 64 + 8 * i);
  return { bytes: Buffer.concat([header, entries]), csum };
}

export function encodeTestFixedIndex(
  size: number,
  chunkSize: number,
  digests: readonly Uint8Array[],
): TestIndex {
  return indexFile('2f7f41ed91fd0fcd', Buffer.concat(digests), [size, chunkSize]);
}

export function encodeTestDynamicIndex(
  chunks: readonly { readonly end: number; readonly digest: Uint8Array }[],
): TestIndex {
  const entries = chunks.map(({ end, digest }) => {
    const le64 = Buffer.alloc(8);
    le64.writeBigUInt64LE(BigInt(end));
    return Buffer.concat([le64, digest]);
  });
  return indexFile('1c914ea519bab3cd', Buffer.concat(entries), []);
}

export interface TestManifestFile {
  readonly filename: string;
  readonly cryptMode: TestCryptMode;
  readonly size: number;
  /** Hex. */
  readonly csum: string;
}

export interface TestManifest {
  readonly type: string;
  readonly id: string;
  readonly time: number;
  readonly files: readonly TestManifestFile[];
  readonly unprotected?: Readonly<Record<string, unknown>>;
  /** Sign with it, and name its fingerprint. */
  readonly key?: Uint8Array | undefined;
}

/** The JSON text. The signed text is spelled out member by member, with no general canonical form. */
export function encodeTestManifest(manifest: TestManifest): string {
  const { type, id, time, key } = manifest;
  const files = manifest.files.map((file) => ({
    'crypt-mode': file.cryptMode,
    csum: file.csum,
    filename: file.filename,
    size: file.size,
  }));
  const signed = `{"backup-id":"${id}","backup-time":${time},"backup-type":"${type}","files":${JSON.stringify(files)}}`;
  return JSON.stringify(
    {
      'backup-id': id,
      'backup-time': time,
      'backup-type': type,
      files,
      signature:
        key === undefined ? null : createHmac('sha256', idKeyOf(key)).update(signed).digest('hex'),
      unprotected: {
        ...(key === undefined ? {} : { 'key-fingerprint': fingerprintOf(key) }),
        ...manifest.unprotected,
      },
    },
    undefined,
    2,
  );
}
