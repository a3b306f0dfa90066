/**
 * Everything that follows from one 32-byte encryption key.
 *
 *   id key        PBKDF2-HMAC-SHA256(key, salt "_id_key", 10 rounds)
 *   fingerprint   SHA-256(label ‖ id key)
 *   chunk digest  SHA-256(plain bytes ‖ id key)
 *   signature     HMAC-SHA256(id key, canonical manifest)
 *   blobs         AES-256-GCM with a 16-byte IV, no additional data
 *
 * Source: PBS `pbs-tools/src/crypt_config.rs`.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createSecretKey,
  pbkdf2Sync,
  subtle,
  type webcrypto,
} from 'node:crypto';
import { PbsfsError } from '../errors.ts';
import { Secret } from './secret.ts';

/** Bytes of an encryption key. */
export const keySize = 32;
/** Bytes of the initialization vector: not the usual 12, so the counter comes from GHASH(IV). */
export const ivSize = 16;
/** Bytes of the authentication tag. */
export const tagSize = 16;

const idKeySalt = '_id_key';
const idKeyRounds = 10;
/** SHA-256 of `Proxmox Backup Encryption Key Fingerprint`. */
const fingerprintInput = Buffer.from(
  '6ed0ef77471fff4d55c7a8fe4a9db62161407f134c725ddf30992d25ec45ed26',
  'hex',
);

/** SHA-256 on the thread pool. */
export async function plainDigest(data: Uint8Array): Promise<Buffer> {
  return Buffer.from(await subtle.digest('SHA-256', data));
}

export class CryptConfig {
  /** 32 bytes that name the key and tell nothing of it. */
  readonly fingerprint: Buffer;
  readonly #key: Secret;
  readonly #idKey: Buffer;
  readonly #decryptionKey: webcrypto.CryptoKey;

  /** @throws PbsfsError `corrupt` where `key` has not 32 bytes. */
  constructor(key: Uint8Array) {
    if (key.length !== keySize) {
      throw new PbsfsError('corrupt', `encryption key has ${key.length} bytes instead of 32`);
    }
    this.#key = new Secret(key);
    this.#idKey = pbkdf2Sync(key, idKeySalt, idKeyRounds, keySize, 'sha256');
    this.#decryptionKey = createSecretKey(key).toCryptoKey('AES-GCM', false, ['decrypt']);
    this.fingerprint = this.digestSync(fingerprintInput);
  }

  /** The raw key, to be written into a key file. */
  revealKey(): Buffer {
    return this.#key.reveal();
  }

  /** Digest of an encrypted chunk with these plain bytes, on the thread pool. */
  async digest(data: Uint8Array): Promise<Buffer> {
    // WebCrypto hashes one contiguous input only.
    return plainDigest(Buffer.concat([data, this.#idKey]));
  }

  /** The same at once, without a copy, on the calling thread. */
  digestSync(data: Uint8Array): Buffer {
    return createHash('sha256').update(data).update(this.#idKey).digest();
  }

  /** HMAC-SHA256 with the id key. */
  sign(bytes: Uint8Array): Buffer {
    return createHmac('sha256', this.#idKey).update(bytes).digest();
  }

  encrypt(data: Uint8Array, iv: Uint8Array): { readonly tag: Buffer; readonly payload: Buffer } {
    const cipher = createCipheriv('aes-256-gcm', this.#key.reveal(), iv, {
      authTagLength: tagSize,
    });
    const payload = cipher.update(data);
    cipher.final();
    return { tag: cipher.getAuthTag(), payload };
  }

  /**
   * Decrypts on the thread pool; nothing is released before the tag is checked.
   * @throws PbsfsError `corrupt` where the tag does not fit.
   */
  async decrypt(payload: Uint8Array, iv: Uint8Array, tag: Uint8Array): Promise<Buffer> {
    const sealed = Buffer.concat([payload, tag]);
    try {
      return Buffer.from(
        await subtle.decrypt({ name: 'AES-GCM', iv }, this.#decryptionKey, sealed),
      );
    } catch (cause) {
      throw decryptionError(cause);
    }
  }

  /** The same at once, without a copy, on the calling thread. */
  decryptSync(payload: Uint8Array, iv: Uint8Array, tag: Uint8Array): Buffer {
    const cipher = createDecipheriv('aes-256-gcm', this.#key.reveal(), iv, {
      authTagLength: tagSize,
    });
    cipher.setAuthTag(tag);
    const data = cipher.update(payload);
    try {
      cipher.final();
    } catch (cause) {
      throw decryptionError(cause);
    }
    return data;
  }
}

function decryptionError(cause: unknown): PbsfsError {
  return new PbsfsError('corrupt', 'decryption fails: the authentication tag does not match', {
    cause,
  });
}
