/**
 * The encryption keys at hand, picked per snapshot by the fingerprint in its manifest. A private master key
 * opens snapshots that carry their own key as `rsa-encrypted.key.blob`.
 */
import { PbsfsError } from '../errors.ts';
import type { CryptConfig } from '../formats/crypt-config.ts';
import { formatShortFingerprint } from '../formats/fingerprint.ts';

/** Recovers the key that a snapshot carries. @throws PbsfsError `key-wrong`, `corrupt` */
export type MasterKey = (rsaEncryptedKey: Buffer) => Promise<CryptConfig>;

export class KeyRing {
  readonly #keys = new Map<string, CryptConfig>();
  readonly masterKey: MasterKey | undefined;

  constructor(keys: readonly CryptConfig[] = [], masterKey?: MasterKey) {
    for (const key of keys) this.#keys.set(key.fingerprint.toString('hex'), key);
    this.masterKey = masterKey;
  }

  get isEmpty(): boolean {
    return this.#keys.size === 0 && this.masterKey === undefined;
  }

  keys(): readonly CryptConfig[] {
    return [...this.#keys.values()];
  }

  /** @param fingerprint 32 bytes. */
  find(fingerprint: Uint8Array): CryptConfig | undefined {
    return this.#keys.get(Buffer.from(fingerprint).toString('hex'));
  }

  /** The error for a snapshot whose key is not here: no key at all, or only others. */
  missing(fingerprint: Uint8Array | undefined): PbsfsError {
    const wanted =
      fingerprint === undefined ? 'an unknown key' : `key ${formatShortFingerprint(fingerprint)}`;
    if (this.isEmpty) {
      return new PbsfsError('key-missing', `encrypted with ${wanted}, and no key was given`, {
        hint: 'give its key file with --keyfile',
      });
    }
    const given = this.keys().map((key) => formatShortFingerprint(key.fingerprint));
    const have = given.length === 0 ? 'only a master key was given' : `given: ${given.join(', ')}`;
    return new PbsfsError('key-wrong', `encrypted with ${wanted}, which is not among the keys`, {
      hint: `${have}; give the right key file with --keyfile`,
    });
  }
}
