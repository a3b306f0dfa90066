/**
 * Chunks of zeros. They are stored like any other and known only by their digest, so the digest of n zero
 * bytes tells one without a fetch.
 */
import { hash } from 'node:crypto';
import type { CryptConfig } from '../formats/crypt-config.ts';
import { maxChunkSize } from '../formats/data-blob.ts';

/** Hashing 16 MiB takes 12 ms, so each length is hashed once: there are as many as chunk sizes in use. */
const plainDigests = new Map<number, Buffer>();
const keyedDigests = new WeakMap<CryptConfig, Map<number, Buffer>>();
let zeros = Buffer.alloc(0);

/** `length` zero bytes, up to a chunk: a view of memory that all share, so never write into it. */
export function zeroBytes(length: number): Buffer {
  if (zeros.length < length) zeros = Buffer.alloc(maxChunkSize);
  return zeros.subarray(0, length);
}

/** Digest of a chunk of `length` zero bytes, up to 16 MiB; with `crypt` that of an encrypted chunk. */
export function zeroDigest(length: number, crypt?: CryptConfig): Buffer {
  const digests = crypt === undefined ? plainDigests : digestsOf(crypt);
  const known = digests.get(length);
  if (known !== undefined) return known;
  const bytes = zeroBytes(length);
  const digest = crypt === undefined ? hash('sha256', bytes, 'buffer') : crypt.digestSync(bytes);
  digests.set(length, digest);
  return digest;
}

function digestsOf(crypt: CryptConfig): Map<number, Buffer> {
  let digests = keyedDigests.get(crypt);
  if (digests === undefined) {
    digests = new Map();
    keyedDigests.set(crypt, digests);
  }
  return digests;
}
