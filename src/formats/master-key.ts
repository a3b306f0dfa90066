/**
 * Master key: the RSA pair that lets its owner recover the key of any backup. `rsa-encrypted.key.blob` holds
 * RSAES-PKCS1-v1_5 of a bare key file; its length is that of the modulus.
 *
 * Source: PBS `pbs-key-config/src/lib.rs` (`rsa_encrypt_key_config`, `rsa_decrypt_key_config`).
 */
import {
  constants,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  privateDecrypt,
  publicEncrypt,
} from 'node:crypto';
import { PbsfsError } from '../errors.ts';
import { formatKeyFile, type KeyFile, parseKeyFile } from './key-file.ts';

/** RFC 8017: `00 02`, at least 8 bytes of padding that are not zero, `00`, message. */
const minPadding = 8;
const paddingStart = 2;

/**
 * Recovers the key file from the content of `rsa-encrypted.key.blob` (without the blob header).
 * @throws PbsfsError `key-missing` where the private key needs a passphrase; `key-wrong` where that, or the
 * private key, is not the right one; `corrupt`.
 */
export function decryptMasterKeyBlob(
  rsaBytes: Uint8Array,
  privateKeyPem: string | Buffer,
  passphrase?: Uint8Array,
): KeyFile {
  const key = openPrivateKey(privateKeyPem, passphrase);
  const expected = Math.ceil(modulusBits(key) / 8);
  if (rsaBytes.length !== expected) {
    throw new PbsfsError(
      'key-wrong',
      `encrypted key has ${rsaBytes.length} bytes, the master key is for ${expected}`,
    );
  }
  return parseKeyFile(stripPadding(decryptUnpadded(rsaBytes, key)).toString('utf8'));
}

/**
 * Reads a private master key.
 * @throws PbsfsError `key-missing`, `key-wrong`, `corrupt`
 */
export function openPrivateKey(pem: string | Buffer, passphrase?: Uint8Array): KeyObject {
  const isProtected = pem.includes('ENCRYPTED');
  if (isProtected && passphrase === undefined) {
    throw new PbsfsError('key-missing', 'private master key needs a passphrase');
  }
  try {
    return createPrivateKey({ key: pem, passphrase: Buffer.from(passphrase ?? '') });
  } catch (cause) {
    // A wrong passphrase shows as one of many errors: one in 256 even leaves a padding that looks right.
    throw isProtected
      ? new PbsfsError('key-wrong', 'wrong passphrase for the private master key', { cause })
      : new PbsfsError('corrupt', 'private master key is not a private key in PEM form', { cause });
  }
}

function modulusBits(key: KeyObject): number {
  const bits = key.asymmetricKeyType === 'rsa' && key.asymmetricKeyDetails?.modulusLength;
  if (typeof bits === 'number') return bits;
  throw new PbsfsError('corrupt', `master key is of type ${key.asymmetricKeyType}, not RSA`);
}

const wrongKey = 'encrypted key was not made for this master key';

/** Without padding: Node 20 refuses PKCS#1 v1.5, and Node 24 hides a wrong key behind random bytes. */
function decryptUnpadded(rsaBytes: Uint8Array, key: KeyObject): Buffer {
  try {
    return privateDecrypt({ key, padding: constants.RSA_NO_PADDING }, rsaBytes);
  } catch (cause) {
    throw new PbsfsError('key-wrong', wrongKey, { cause });
  }
}

function stripPadding(padded: Buffer): Buffer {
  const end = padded.indexOf(0, paddingStart);
  if (padded.readUInt16BE(0) !== paddingStart || end < paddingStart + minPadding) {
    throw new PbsfsError('key-wrong', wrongKey);
  }
  return padded.subarray(end + 1);
}

/**
 * The content of `rsa-encrypted.key.blob`.
 * @param keyFile one with no passphrase, as `createKeyFile` makes it for `none`.
 * @throws PbsfsError `corrupt` where the public key is none, or is too short for a key file.
 */
export function encryptForMasterKey(keyFile: KeyFile, publicKeyPem: string | Buffer): Buffer {
  if (keyFile.kdf.type !== 'none') {
    throw new PbsfsError('bug', 'a protected key file cannot be recovered by a master key');
  }
  const key = openPublicKey(publicKeyPem);
  const bits = modulusBits(key);
  try {
    return publicEncrypt(
      { key, padding: constants.RSA_PKCS1_PADDING },
      Buffer.from(formatKeyFile(keyFile)),
    );
  } catch (cause) {
    throw new PbsfsError('corrupt', `public master key of ${bits} bits cannot hold a key file`, {
      hint: 'it needs 3072 bits or more',
      cause,
    });
  }
}

function openPublicKey(pem: string | Buffer): KeyObject {
  try {
    return createPublicKey(pem);
  } catch (cause) {
    throw new PbsfsError('corrupt', 'public master key is not a key in PEM form', { cause });
  }
}
