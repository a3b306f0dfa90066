/**
 * Key file: one encryption key as JSON, bare or protected by a passphrase.
 *
 *   kdf          null | {"Scrypt":{n,r,p,salt}} | {"PBKDF2":{iter,salt}}
 *   data         null kdf: the key (32); else IV (16), GCM tag (16), encrypted key (32); base64
 *   created, modified, fingerprint (absent in old files), hint
 *
 * A paper key is the same JSON between a BEGIN and an END line.
 * Source: PBS `pbs-key-config/src/lib.rs`, `pbs-client/src/tools/key_source.rs`, `proxmox-backup-client/src/key.rs`.
 */
import { createDecipheriv, pbkdf2, randomBytes, type ScryptOptions, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import { PbsfsError } from '../errors.ts';
import { CryptConfig, ivSize, keySize, tagSize } from './crypt-config.ts';
import { formatFingerprint, formatShortFingerprint, parseFingerprint } from './fingerprint.ts';
import { type JsonObject, JsonReader, type JsonValue, parseJson } from './json.ts';
import { Secret } from './secret.ts';

/** How the key that protects the key comes from the passphrase. */
export type Kdf =
  | { readonly type: 'none' }
  | {
      readonly type: 'scrypt';
      readonly n: number;
      readonly r: number;
      readonly p: number;
      readonly salt: Buffer;
    }
  | { readonly type: 'pbkdf2'; readonly iterations: number; readonly salt: Buffer };

export interface KeyFile {
  readonly kdf: Kdf;
  /** RFC 3339. */
  readonly created: string;
  readonly modified: string;
  /** The key itself, or its encrypted form. */
  readonly data: Secret;
  readonly fingerprint: Buffer | undefined;
  /** What its owner wrote down to remember the passphrase. */
  readonly hint: string | undefined;
}

const sealedSize = ivSize + tagSize + keySize;
/** The cap of PBS: 1025 MiB for one derivation. */
const maxScryptMemory = 1025 * 1024 * 1024;
/** 32 times the work of PBS's default (65536·8·1): some 10 seconds. */
const maxScryptWork = 32 * 65536 * 8;
/** 150 times PBS's default: some seconds. */
const maxIterations = 10_000_000;
/** PBS refuses shorter passphrases. */
const minPassphraseSize = 5;
/** Defaults of PBS's `key create`. */
const scryptDefaults = { n: 65536, r: 8, p: 1 } as const;
const pbkdf2Iterations = 65535;
const saltSize = 32;

const paperBegin = '-----BEGIN PROXMOX BACKUP KEY-----';
const paperEnd = '-----END PROXMOX BACKUP KEY-----';

const pbkdf2Async = promisify(pbkdf2);
const scryptAsync = promisify<Uint8Array, Uint8Array, number, ScryptOptions, Buffer>(scrypt);

/**
 * Reads a key file, or a paper key with text around it.
 * @throws PbsfsError `corrupt`, naming what is wrong and quoting nothing.
 */
export function parseKeyFile(text: string): KeyFile {
  const reader = new JsonReader(parseJson(cutPaperKey(text), 'key file'), 'key file');
  const kdf = parseKdf(reader.get('kdf'));
  const data = parseBase64(reader, 'data');
  const expected = kdf.type === 'none' ? keySize : sealedSize;
  if (data.length !== expected) {
    throw reader.error(`'data' has ${data.length} bytes instead of ${expected}`);
  }
  const fingerprintText = reader.optionalString('fingerprint');
  const fingerprint = fingerprintText === undefined ? undefined : parseFingerprint(fingerprintText);
  if (fingerprintText !== undefined && fingerprint === undefined) {
    throw reader.error(`'fingerprint' is not a fingerprint`);
  }
  return {
    kdf,
    created: reader.string('created'),
    modified: reader.string('modified'),
    data: new Secret(data),
    fingerprint,
    hint: reader.optionalString('hint'),
  };
}

function cutPaperKey(text: string): string {
  if (/-----BEGIN [A-Z ]*(?:PUBLIC|PRIVATE) KEY-----/.test(text)) {
    throw new PbsfsError('corrupt', 'is a PEM file, not a key file', {
      hint: 'a private master key is given with --master-keyfile',
    });
  }
  const begin = text.indexOf(paperBegin);
  if (begin < 0) return text;
  const end = text.indexOf(paperEnd, begin);
  if (end < 0) throw new PbsfsError('corrupt', 'paper key has no END line');
  return text.slice(begin + paperBegin.length, end);
}

function parseKdf(value: JsonValue | undefined): Kdf {
  if (value === undefined) return { type: 'none' };
  const kdf = new JsonReader(value, `key file 'kdf'`);
  const scryptValue = kdf.get('Scrypt');
  if (scryptValue !== undefined) return parseScrypt(new JsonReader(scryptValue, 'key file Scrypt'));
  const pbkdf2Value = kdf.get('PBKDF2');
  if (pbkdf2Value !== undefined) return parsePbkdf2(new JsonReader(pbkdf2Value, 'key file PBKDF2'));
  throw kdf.error('neither Scrypt nor PBKDF2');
}

function parseScrypt(reader: JsonReader): Kdf {
  const [n, r, p] = [reader.integer('n'), reader.integer('r'), reader.integer('p')];
  const isPossible = n > 1 && r > 0 && p > 0 && Number.isInteger(Math.log2(n));
  if (!isPossible || scryptMemory(n, r, p) > maxScryptMemory || n * r * p > maxScryptWork) {
    throw reader.error(`parameters n=${n} r=${r} p=${p} are out of range`);
  }
  return { type: 'scrypt', n, r, p, salt: parseBase64(reader, 'salt') };
}

function parsePbkdf2(reader: JsonReader): Kdf {
  const iterations = reader.integer('iter');
  if (iterations < 1 || iterations > maxIterations) {
    throw reader.error(`iter=${iterations} is not within 1…${maxIterations}`);
  }
  return { type: 'pbkdf2', iterations, salt: parseBase64(reader, 'salt') };
}

/** OpenSSL needs some more than the 128·n·r of the textbook. */
function scryptMemory(n: number, r: number, p: number): number {
  return 128 * r * (n + p + 2);
}

function parseBase64(reader: JsonReader, key: string): Buffer {
  const text = reader.string(key);
  const bytes = Buffer.from(text, 'base64');
  if (bytes.toString('base64') !== text) throw reader.error(`'${key}' is not base64`);
  return bytes;
}

async function deriveKey(
  kdf: Exclude<Kdf, { type: 'none' }>,
  passphrase: Uint8Array,
): Promise<Buffer> {
  if (kdf.type === 'pbkdf2') {
    return pbkdf2Async(passphrase, kdf.salt, kdf.iterations, keySize, 'sha256');
  }
  const { n, r, p, salt } = kdf;
  try {
    return await scryptAsync(passphrase, salt, keySize, {
      N: n,
      r,
      p,
      maxmem: scryptMemory(n, r, p),
    });
  } catch (cause) {
    throw new PbsfsError('corrupt', `scrypt refuses n=${n} r=${r} p=${p}`, { cause });
  }
}

/**
 * The key of a key file. Deriving runs on the thread pool.
 * @throws PbsfsError `key-missing` where a passphrase is needed and absent; `key-wrong` where it is wrong;
 * `corrupt` where the key is not the one that the file names.
 */
export async function unlockKeyFile(
  keyFile: KeyFile,
  passphrase?: Uint8Array,
): Promise<CryptConfig> {
  const crypt = new CryptConfig(await unlockData(keyFile, passphrase));
  const { fingerprint } = keyFile;
  if (fingerprint !== undefined && !fingerprint.equals(crypt.fingerprint)) {
    throw new PbsfsError(
      'corrupt',
      `key file names key ${formatShortFingerprint(fingerprint)} and holds ${formatShortFingerprint(crypt.fingerprint)}`,
    );
  }
  return crypt;
}

async function unlockData(keyFile: KeyFile, passphrase: Uint8Array | undefined): Promise<Buffer> {
  const { kdf, hint } = keyFile;
  const data = keyFile.data.reveal();
  if (kdf.type === 'none') return data;
  const errorOptions = hint === undefined ? {} : { hint: `passphrase hint: ${hint}` };
  if (passphrase === undefined) {
    throw new PbsfsError('key-missing', 'key file needs a passphrase', errorOptions);
  }
  const decipher = createDecipheriv(
    'aes-256-gcm',
    await deriveKey(kdf, passphrase),
    data.subarray(0, ivSize),
    { authTagLength: tagSize },
  );
  decipher.setAuthTag(data.subarray(ivSize, ivSize + tagSize));
  const key = decipher.update(data.subarray(ivSize + tagSize));
  try {
    decipher.final();
  } catch {
    throw new PbsfsError('key-wrong', 'wrong passphrase for the key file', errorOptions);
  }
  return key;
}

export interface CreateKeyFileOptions {
  readonly kdf: Kdf['type'];
  /** Needed unless `kdf` is `none`: at least 5 bytes. */
  readonly passphrase?: Uint8Array;
  readonly hint?: string;
  /** Time of creation of the key itself, where it is older than this file. */
  readonly created?: string;
}

/**
 * Wraps a key with PBS's default parameters and a random salt.
 * @throws PbsfsError `usage` where the passphrase is missing or too short.
 */
export async function createKeyFile(
  crypt: CryptConfig,
  options: CreateKeyFileOptions,
): Promise<KeyFile> {
  const kdf = newKdf(options.kdf);
  const modified = `${new Date().toISOString().slice(0, 19)}+00:00`;
  return {
    kdf,
    created: options.created ?? modified,
    modified,
    data: new Secret(await sealKey(crypt.revealKey(), kdf, options.passphrase)),
    fingerprint: crypt.fingerprint,
    hint: options.hint,
  };
}

function newKdf(type: Kdf['type']): Kdf {
  switch (type) {
    case 'none':
      return { type };
    case 'scrypt':
      return { type, ...scryptDefaults, salt: randomBytes(saltSize) };
    case 'pbkdf2':
      return { type, iterations: pbkdf2Iterations, salt: randomBytes(saltSize) };
  }
}

async function sealKey(key: Buffer, kdf: Kdf, passphrase: Uint8Array | undefined): Promise<Buffer> {
  if (kdf.type === 'none') return key;
  if (passphrase === undefined || passphrase.length < minPassphraseSize) {
    throw new PbsfsError('usage', `a passphrase of at least ${minPassphraseSize} bytes is needed`);
  }
  const iv = randomBytes(ivSize);
  const { tag, payload } = new CryptConfig(await deriveKey(kdf, passphrase)).encrypt(key, iv);
  return Buffer.concat([iv, tag, payload]);
}

/** Compact JSON, as PBS writes it. It holds the key: mode 0600. */
export function formatKeyFile(keyFile: KeyFile): string {
  const { created, modified, data, fingerprint, hint } = keyFile;
  return JSON.stringify({
    kdf: kdfToJson(keyFile.kdf),
    created,
    modified,
    data: data.reveal().toString('base64'),
    ...(fingerprint === undefined ? {} : { fingerprint: formatFingerprint(fingerprint) }),
    ...(hint === undefined ? {} : { hint }),
  });
}

function kdfToJson(kdf: Kdf): JsonObject | null {
  switch (kdf.type) {
    case 'none':
      return null;
    case 'scrypt': {
      const { n, r, p, salt } = kdf;
      return { Scrypt: { n, r, p, salt: salt.toString('base64') } };
    }
    case 'pbkdf2':
      return { PBKDF2: { iter: kdf.iterations, salt: kdf.salt.toString('base64') } };
  }
}
