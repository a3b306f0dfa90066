/**
 * How fast this machine does what reading a backup takes, each for about a second.
 *
 *   SHA-256, zstd and AES-256-GCM both ways    one core
 *   verify                                     chunks unpacked and compared with their digests as a restore does, all cores
 */
import { hash, randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ChunkMemory } from '../chunks/chunk-memory.ts';
import { DecoderThreads } from '../chunks/decoder-threads.ts';
import { CryptConfig, ivSize } from '../formats/crypt-config.ts';
import { decodeBlobSync, encodeBlob } from '../formats/data-blob.ts';
import { measureRate } from './measure-rate.ts';

/** What was measured: either a rate of plain bytes (`stored`: of stored ones), or a time. */
export interface Figure {
  readonly name:
    | 'sha256'
    | 'zstd-compress'
    | 'zstd-decompress'
    | 'aes-gcm-encrypt'
    | 'aes-gcm-decrypt'
    | 'verify'
    | 'open'
    | 'first-byte'
    | 'stored'
    | 'verified';
  /** How many at once. */
  readonly atOnce: number;
  readonly bytesPerSecond?: number;
  readonly milliseconds?: number;
}

export interface BenchmarkOptions {
  /** Of each measure; slow ones take more. */
  readonly seconds: number;
  readonly signal?: AbortSignal | undefined;
}

/** The chunk size of images. */
const length = 4 * 1024 * 1024;
/** Runs of data that zstd can do nothing with, and of data that it can. */
const runLength = 64 * 1024;

/** @throws PbsfsError `aborted` */
export async function* benchmarkMachine(options: BenchmarkOptions): AsyncGenerator<Figure> {
  const data = sampleData();
  const crypt = new CryptConfig(randomBytes(32));
  const iv = randomBytes(ivSize);
  const sealed = crypt.encrypt(data, iv);
  const packed = encodeBlob(data, { compress: true });
  const works: readonly (readonly [name: Figure['name'], work: () => unknown])[] = [
    ['sha256', () => hash('sha256', data, 'buffer')],
    ['zstd-compress', () => encodeBlob(data, { compress: true })],
    ['zstd-decompress', () => decodeBlobSync(packed, { maxLength: length })],
    ['aes-gcm-encrypt', () => crypt.encrypt(data, iv)],
    ['aes-gcm-decrypt', () => crypt.decryptSync(sealed.payload, iv, sealed.tag)],
  ];
  for (const [name, work] of works) {
    const step = async (): Promise<number> => {
      work();
      // Lets a signal through.
      await nextTurn();
      return length;
    };
    yield { name, atOnce: 1, bytesPerSecond: await measureRate(step, { ...options, atOnce: 1 }) };
  }
  yield await measureVerify(data, packed, options);
}

async function measureVerify(
  data: Buffer,
  packed: Buffer,
  options: BenchmarkOptions,
): Promise<Figure> {
  const digest = hash('sha256', data, 'buffer');
  const expected = { digest, length, paddedLength: length, cryptMode: 'none' } as const;
  using decoder = new DecoderThreads();
  const step = async (): Promise<number> => {
    // The decoder takes its memory away.
    const raw = Buffer.allocUnsafeSlow(packed.length);
    packed.copy(raw);
    new ChunkMemory(await decoder.decode(raw, expected)).evict();
    return length;
  };
  const cores = availableParallelism();
  // Twice: a thread has the next chunk at hand.
  const rate = await measureRate(step, { ...options, atOnce: 2 * cores });
  return { name: 'verify', atOnce: cores, bytesPerSecond: rate };
}

/** Half of it random, half of it like a log file. */
function sampleData(): Buffer {
  const data = randomBytes(length);
  for (let at = 0, line = 0; at < length; at += 2 * runLength) {
    for (let end = at; end < at + runLength; line++) {
      const text = `${line} sample ${(line * 7919) % 1_000_003} of ${(line * 104_729) % 65_537}\n`;
      end += data.write(text, end, Math.min(text.length, at + runLength - end), 'latin1');
    }
  }
  return data;
}
