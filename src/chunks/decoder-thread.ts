/** The other side of `DecoderThreads`: decodes what it is sent, one chunk after the other. */
import { parentPort } from 'node:worker_threads';
import { toPbsfsError } from '../errors.ts';
import { CryptConfig } from '../formats/crypt-config.ts';
import { decodeChunk } from './decode-chunk.ts';
import type { DecodeAnswer, DecodeTask } from './decoder-threads.ts';

/** The key that was used last, with what is derived from it. */
let current: { readonly key: Uint8Array; readonly crypt: CryptConfig } | undefined;

function cryptOf(key: Uint8Array | undefined): CryptConfig | undefined {
  if (key === undefined) return undefined;
  if (current === undefined || Buffer.compare(current.key, key) !== 0) {
    current = { key, crypt: new CryptConfig(key) };
  }
  return current.crypt;
}

function decode({ raw, expected, key }: DecodeTask): DecodeAnswer {
  try {
    const stored = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength);
    const bytes = decodeChunk(stored, expected, cryptOf(key));
    // At once, where a garbage collection would let several of them pile up.
    if (bytes.buffer !== raw.buffer) raw.buffer.transfer(0);
    const { buffer, byteOffset, byteLength } = bytes;
    return { bytes: new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength) };
  } catch (error) {
    const { code, message, stack } = toPbsfsError(error);
    return { code, message, stack };
  }
}

parentPort?.on('message', (task: DecodeTask) => {
  const answer = decode(task);
  parentPort?.postMessage(answer, 'bytes' in answer ? [answer.bytes.buffer] : []);
});
