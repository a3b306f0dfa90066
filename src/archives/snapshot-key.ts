/**
 * Which key a snapshot needs, and whether it is at hand. Five outcomes are told apart: nothing encrypted; the
 * right key; no key; other keys only; and a key whose manifest signature does not match, which is an error.
 */
import { type PbsfsError, toPbsfsError } from '../errors.ts';
import { masterKeyBlobName } from '../formats/archive-name.ts';
import type { CryptConfig } from '../formats/crypt-config.ts';
import { decodeBlob, maxBlobSize } from '../formats/data-blob.ts';
import { type Manifest, verifyManifest } from '../formats/manifest.ts';
import type { SnapshotReader } from '../repository/repository.ts';
import type { KeyRing } from './key-ring.ts';

export interface PickedKey {
  readonly crypt?: CryptConfig;
  /** Why encrypted archives of this snapshot cannot be read. */
  readonly locked?: PbsfsError;
}

/** @throws PbsfsError `corrupt` where the manifest's signature does not fit the key that it names. */
export async function pickKey(
  reader: SnapshotReader,
  manifest: Manifest,
  keys: KeyRing,
  signal?: AbortSignal,
): Promise<PickedKey> {
  const encrypted = manifest.files.some((file) => file.cryptMode === 'encrypt');
  const fingerprint = manifest.unprotected.keyFingerprint;
  if (!encrypted && fingerprint === undefined) return {};
  const crypt = fingerprint === undefined ? signerOf(manifest, keys) : keys.find(fingerprint);
  if (crypt !== undefined) {
    verifyManifest(manifest, crypt);
    return { crypt };
  }
  const hasOwnKey = manifest.files.some((file) => file.filename === masterKeyBlobName);
  if (hasOwnKey && keys.masterKey !== undefined) {
    return await unlockWithMasterKey(reader, manifest, keys.masterKey, signal);
  }
  return { locked: keys.missing(fingerprint) };
}

/** Old manifests name no key: take the one that signed, or the only one there is. */
function signerOf(manifest: Manifest, keys: KeyRing): CryptConfig | undefined {
  const all = keys.keys();
  if (manifest.signature === undefined) return all.length === 1 ? all[0] : undefined;
  return all.find((key) => {
    try {
      verifyManifest(manifest, key);
      return true;
    } catch {
      return false;
    }
  });
}

async function unlockWithMasterKey(
  reader: SnapshotReader,
  manifest: Manifest,
  masterKey: NonNullable<KeyRing['masterKey']>,
  signal?: AbortSignal,
): Promise<PickedKey> {
  try {
    const raw = await reader.readFile(masterKeyBlobName, signal);
    const crypt = await masterKey(await decodeBlob(raw, { maxLength: maxBlobSize, crc: true }));
    verifyManifest(manifest, crypt);
    return { crypt };
  } catch (error) {
    return { locked: toPbsfsError(error).at({ archive: masterKeyBlobName }) };
  }
}
