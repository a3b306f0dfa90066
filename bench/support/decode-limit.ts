/**
 * The machine's limit for an image in a local datastore: every chunk that is not zeros read, decompressed and
 * hashed by all cores, with nothing around it. Ordinary Node functions in worker threads, none of the
 * project's code.
 */
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { zstdDecompressSync } from 'node:zlib';
import type { Contestant, Sample } from './bench-case.ts';
import { type Dataset, dataDigests } from './dataset.ts';
import { chunkSize } from './image-content.ts';

interface Work {
  readonly digests: readonly string[];
  readonly directory: string;
  /** Position of the next chunk to take, shared by all threads. */
  readonly next: Int32Array;
}

export const decodeLimitName = 'decode limit';

export function decodeLimit(dataset: Dataset): Contestant {
  const digests = dataDigests(dataset);
  return {
    name: decodeLimitName,
    run: () => decodeOnAllCores(digests, dataset.chunkDirectory),
  };
}

async function decodeOnAllCores(digests: readonly string[], directory: string): Promise<Sample> {
  const next = new Int32Array(new SharedArrayBuffer(4));
  const work: Work = { digests, directory, next };
  const workers = Array.from(
    { length: availableParallelism() },
    () => new Worker(new URL(import.meta.url), { workerData: work }),
  );
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  const start = performance.now();
  for (const worker of workers) worker.postMessage('start');
  await Promise.all(workers.map((worker) => once(worker, 'exit')));
  return { seconds: (performance.now() - start) / 1000 };
}

/** First byte of the magic of a zstd blob; encrypted ones do not occur here. */
const zstdMagic = 0x31;
const headerSize = 12;

function decodeAll({ digests, directory, next }: Work): void {
  for (let i = Atomics.add(next, 0, 1); i < digests.length; i = Atomics.add(next, 0, 1)) {
    decodeStoredChunk(directory, digests[i] ?? '');
  }
}

/** Reads, unpacks and hashes one chunk on the calling thread. */
export function decodeStoredChunk(directory: string, digest: string): void {
  const raw = readFileSync(`${directory}/${digest.slice(0, 4)}/${digest}`);
  const payload = raw.subarray(headerSize);
  const bytes =
    raw[0] === zstdMagic
      ? zstdDecompressSync(payload, { chunkSize, maxOutputLength: chunkSize })
      : payload;
  if (hash('sha256', bytes) !== digest) throw new Error(`chunk ${digest} is damaged`);
}

if (!isMainThread && parentPort !== null) {
  const port = parentPort;
  port.once('message', () => {
    decodeAll(workerData as Work);
    process.exit(0);
  });
  port.postMessage('ready');
}
