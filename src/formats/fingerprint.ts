/**
 * Text forms of a key fingerprint (32 bytes): `0e:ab:d4:…` in full, and its first 8 bytes where a person
 * only has to tell keys apart.
 *
 * Source: PBS `pbs-key-config`, `Fingerprint` in `pbs-api-types`.
 */
import { asBuffer } from './bytes.ts';

const fingerprintSize = 32;
const shortSize = 8;

/** All 32 bytes, lower-case hex with colons. */
export function formatFingerprint(fingerprint: Uint8Array): string {
  return asBuffer(fingerprint)
    .toString('hex')
    .replace(/..(?=.)/g, '$&:');
}

/** The first 8 bytes in the same form: PBS's short key id. */
export function formatShortFingerprint(fingerprint: Uint8Array): string {
  return formatFingerprint(fingerprint.subarray(0, shortSize));
}

/** 64 hex digits of any case, with or without colons; undefined for anything else. */
export function parseFingerprint(text: string): Buffer | undefined {
  const hex = text.replaceAll(':', '');
  if (hex.length !== fingerprintSize * 2 || !/^[0-9a-f]+$/i.test(hex)) return undefined;
  return Buffer.from(hex, 'hex');
}
