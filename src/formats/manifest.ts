/**
 * Manifest (`index.json.blob`): the files of a snapshot with their checksums, and who may trust them.
 *
 *   backup-type, backup-id, backup-time
 *   files[]      filename, crypt-mode, size and csum: of the content for an index, of the raw file for a blob
 *   unprotected  notes, key fingerprint, verification: not signed, the server rewrites it
 *   signature    HMAC over all the rest
 *
 * Source: PBS `pbs-datastore/src/manifest.rs`.
 */
import { timingSafeEqual } from 'node:crypto';
import { PbsfsError } from '../errors.ts';
import { isArchiveName } from './archive-name.ts';
import type { CryptConfig } from './crypt-config.ts';
import { formatFingerprint, formatShortFingerprint, parseFingerprint } from './fingerprint.ts';
import {
  canonicalJson,
  formatPrettyJson,
  isJsonObject,
  type JsonObject,
  JsonReader,
  type JsonValue,
  parseJson,
} from './json.ts';
import { type BackupType, isBackupTime, isBackupType, isSafeId } from './snapshot-path.ts';

const cryptModes = ['none', 'encrypt', 'sign-only'] as const;
export type CryptMode = (typeof cryptModes)[number];

export interface ManifestFile {
  /** Server name, such as `drive-scsi0.img.fidx`; unique within the manifest. */
  readonly filename: string;
  readonly cryptMode: CryptMode;
  /** Content size of an index, raw size of a blob. */
  readonly size: number;
  /** 32 bytes: checksum of an index over its entries, SHA-256 of a raw blob. */
  readonly csum: Buffer;
}

/** What the server keeps beside the signed part. Never to be trusted. */
interface Unprotected {
  /** Key of the backup, encrypted or signed. */
  readonly keyFingerprint?: Buffer | undefined;
  readonly notes?: string | undefined;
  readonly verifyState?: { readonly state: string; readonly upid: string } | undefined;
  readonly chunkUploadStats?: ChunkUploadStats | undefined;
}

interface ChunkUploadStats {
  readonly count: number;
  readonly size: number;
  readonly compressedSize: number;
  readonly duplicates: number;
}

export interface ManifestContent {
  readonly backupType: BackupType;
  readonly backupId: string;
  /** Seconds since the epoch. */
  readonly backupTime: number;
  readonly files: readonly ManifestFile[];
  readonly unprotected: Unprotected;
}

export interface Manifest extends ManifestContent {
  /** 64 hex digits. */
  readonly signature: string | undefined;
  /** All of it as received, unknown members included: what the signature covers. */
  readonly json: JsonObject;
}

/**
 * @param bytes the decoded content of `index.json.blob`.
 * @throws PbsfsError `corrupt`
 */
export function parseManifest(bytes: Uint8Array): Manifest {
  const json = parseJson(bytes, 'manifest');
  if (!isJsonObject(json)) throw new PbsfsError('corrupt', 'manifest is not a JSON object');
  const reader = new JsonReader(json, 'manifest');
  const backupType = reader.string('backup-type');
  const backupId = reader.string('backup-id');
  const backupTime = reader.integer('backup-time');
  if (!isBackupType(backupType)) throw reader.error(`'backup-type' is neither ct, host nor vm`);
  if (!isSafeId(backupId)) throw reader.error(`'backup-id' is not a valid backup id`);
  if (!isBackupTime(backupTime)) throw reader.error(`'backup-time' is ${backupTime}`);
  return {
    backupType,
    backupId,
    backupTime,
    files: parseFiles(reader),
    unprotected: parseUnprotected(reader.get('unprotected')),
    signature: reader.optionalString('signature'),
    json,
  };
}

function parseFiles(reader: JsonReader): readonly ManifestFile[] {
  const names = new Set<string>();
  return reader.list('files').map((value, i) => {
    const file = parseFile(value, i);
    if (names.has(file.filename)) throw reader.error(`'${file.filename}' is listed twice`);
    names.add(file.filename);
    return file;
  });
}

function parseFile(value: JsonValue, i: number): ManifestFile {
  const reader = new JsonReader(value, `manifest file ${i}`);
  const filename = reader.string('filename');
  // The name becomes part of paths and URLs.
  if (!isArchiveName(filename)) throw reader.error(`'filename' is not a valid archive name`);
  const csum = reader.string('csum');
  if (!/^[0-9a-f]{64}$/i.test(csum)) throw reader.error(`'csum' is not 64 hex digits`);
  const cryptMode = reader.optionalString('crypt-mode') ?? 'none';
  if (!isCryptMode(cryptMode)) throw reader.error(`unknown 'crypt-mode'`);
  return { filename, cryptMode, size: reader.integer('size'), csum: Buffer.from(csum, 'hex') };
}

function isCryptMode(text: string): text is CryptMode {
  return (cryptModes as readonly string[]).includes(text);
}

/** Only the fingerprint decides anything; the rest is for show, so what is malformed is left out. */
function parseUnprotected(value: JsonValue | undefined): Unprotected {
  if (value === undefined) return {};
  const reader = new JsonReader(value, `manifest 'unprotected'`);
  const fingerprint = reader.optionalString('key-fingerprint');
  const keyFingerprint = fingerprint === undefined ? undefined : parseFingerprint(fingerprint);
  if (fingerprint !== undefined && keyFingerprint === undefined) {
    throw reader.error(`'key-fingerprint' is not a fingerprint`);
  }
  const notes = reader.get('notes');
  return {
    keyFingerprint,
    notes: typeof notes === 'string' ? notes : undefined,
    verifyState: parseVerifyState(reader.get('verify_state')),
    chunkUploadStats: parseUploadStats(reader.get('chunk_upload_stats')),
  };
}

function parseVerifyState(value: JsonValue | undefined): Unprotected['verifyState'] {
  if (!isJsonObject(value)) return undefined;
  const { state, upid } = value;
  return typeof state === 'string' && typeof upid === 'string' ? { state, upid } : undefined;
}

function parseUploadStats(value: JsonValue | undefined): ChunkUploadStats | undefined {
  if (!isJsonObject(value)) return undefined;
  const { count, size, compressed_size: compressedSize, duplicates } = value;
  return typeof count === 'number' &&
    typeof size === 'number' &&
    typeof compressedSize === 'number' &&
    typeof duplicates === 'number'
    ? { count, size, compressedSize, duplicates }
    : undefined;
}

/** A new manifest, not signed. */
export function createManifest(content: ManifestContent): Manifest {
  return { ...content, signature: undefined, json: toJson(content) };
}

function toJson(content: ManifestContent): JsonObject {
  return {
    'backup-id': content.backupId,
    'backup-time': content.backupTime,
    'backup-type': content.backupType,
    files: content.files.map((file) => ({
      'crypt-mode': file.cryptMode,
      csum: file.csum.toString('hex'),
      filename: file.filename,
      size: file.size,
    })),
    signature: null,
    unprotected: unprotectedToJson(content.unprotected),
  };
}

function unprotectedToJson(unprotected: Unprotected): JsonObject {
  const { chunkUploadStats: stats, keyFingerprint, notes, verifyState } = unprotected;
  return {
    ...(stats === undefined ? {} : { chunk_upload_stats: uploadStatsToJson(stats) }),
    ...(keyFingerprint === undefined
      ? {}
      : { 'key-fingerprint': formatFingerprint(keyFingerprint) }),
    ...(notes === undefined ? {} : { notes }),
    ...(verifyState === undefined ? {} : { verify_state: { ...verifyState } }),
  };
}

function uploadStatsToJson(stats: ChunkUploadStats): JsonObject {
  return {
    compressed_size: stats.compressedSize,
    count: stats.count,
    duplicates: stats.duplicates,
    size: stats.size,
  };
}

/** Pretty-printed, as PBS stores it. */
export function formatManifest(manifest: Manifest): string {
  return formatPrettyJson(manifest.json);
}

function computeSignature(json: JsonObject, crypt: CryptConfig): Buffer {
  const { unprotected: _unprotected, signature: _signature, ...signed } = json;
  return crypt.sign(Buffer.from(canonicalJson(signed)));
}

/**
 * The manifest with its signature and the fingerprint of the key.
 * @throws PbsfsError `corrupt` where it holds a null, which cannot be signed.
 */
export function signManifest(manifest: Manifest, crypt: CryptConfig): Manifest {
  const signature = computeSignature(manifest.json, crypt).toString('hex');
  const unprotected = manifest.json['unprotected'];
  const json: JsonObject = {
    ...manifest.json,
    signature,
    unprotected: {
      ...(isJsonObject(unprotected) ? unprotected : {}),
      'key-fingerprint': formatFingerprint(crypt.fingerprint),
    },
  };
  return {
    ...manifest,
    unprotected: { ...manifest.unprotected, keyFingerprint: crypt.fingerprint },
    signature,
    json,
  };
}

/**
 * Checks that the manifest is what the owner of the key wrote. As in PBS, a manifest without a signature
 * passes, unless `requireSignature` is set: a server could have removed it.
 * @throws PbsfsError `key-wrong` where it names another key; `corrupt` where the signature does not fit.
 */
export function verifyManifest(
  manifest: Manifest,
  crypt: CryptConfig,
  options: { readonly requireSignature?: boolean } = {},
): void {
  const wanted = manifest.unprotected.keyFingerprint;
  if (wanted !== undefined && !wanted.equals(crypt.fingerprint)) {
    throw new PbsfsError(
      'key-wrong',
      `made with key ${formatShortFingerprint(wanted)}, the given key is ${formatShortFingerprint(crypt.fingerprint)}`,
    );
  }
  if (manifest.signature === undefined) {
    if (options.requireSignature === true) {
      throw new PbsfsError('corrupt', 'manifest is not signed, and a signature is required');
    }
    return;
  }
  const found = Buffer.from(manifest.signature, 'hex');
  const expected = computeSignature(manifest.json, crypt);
  if (found.length !== expected.length || !timingSafeEqual(found, expected)) {
    throw new PbsfsError(
      'corrupt',
      `manifest signature does not match key ${formatShortFingerprint(crypt.fingerprint)}: the manifest was changed`,
    );
  }
}
