/** The chunks of an image decoded within one process: on threads of pbsfs's own, and on Node's thread pool instead. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DecoderThreads } from '../../src/chunks/decoder-threads.ts';
import { decodeOnPool } from '../support/bare-loop.ts';
import {
  type BenchCase,
  type PreparedCase,
  type Sample,
  speedRatio,
} from '../support/bench-case.ts';
import { type Dataset, dataChunks } from '../support/dataset.ts';
import { decodeLimit, decodeLimitName } from '../support/decode-limit.ts';
import { chunkSize } from '../support/image-content.ts';

const megabyte = 1e6;
const chunksAtOnce = 8;
const threadsName = 'threads of pbsfs';
const poolName = 'thread pool of Node';

export const decode: BenchCase = {
  name: 'decode',
  title: 'Decoding the chunks of an image, and what that takes of the event loop',
  prepare: async (environment): Promise<PreparedCase> => {
    const dataset = environment.dataset();
    return {
      work: { amount: dataset.size / megabyte, unit: 'MB/s' },
      contestants: [
        decodeLimit(dataset),
        { name: threadsName, run: () => onThreads(dataset) },
        { name: poolName, run: () => decodeChunks(dataset, decodeOnPool) },
      ],
      wanted: [
        {
          what: 'of the decode limit',
          bound: 'at least',
          limit: 0.9,
          value: speedRatio(threadsName, decodeLimitName),
        },
        {
          what: 'times the speed of the thread pool',
          bound: 'at least',
          limit: 1,
          value: speedRatio(threadsName, poolName),
        },
      ],
      [Symbol.asyncDispose]: async () => {},
    };
  },
};

async function onThreads(dataset: Dataset): Promise<Sample> {
  using threads = new DecoderThreads();
  const expected = { length: chunkSize, paddedLength: chunkSize, cryptMode: 'none' } as const;
  return await decodeChunks(dataset, async (raw, hex) => {
    const digest = Buffer.from(hex, 'hex');
    const bytes = await threads.decode(raw, { ...expected, digest });
    // As the cache does it with a chunk that it drops.
    if (bytes.buffer instanceof ArrayBuffer) bytes.buffer.transfer(0);
  });
}

async function decodeChunks(
  dataset: Dataset,
  decodeOne: (raw: Buffer, digest: string) => Promise<unknown>,
): Promise<Sample> {
  const wholeChunks = Math.floor(dataset.size / chunkSize);
  const chunks = dataChunks(dataset)
    .filter(({ position }) => position < wholeChunks)
    .values();
  const startCpu = process.cpuUsage();
  const startLoop = performance.eventLoopUtilization();
  const start = performance.now();
  const worker = async (): Promise<void> => {
    for (const { digest } of chunks) {
      const file = join(dataset.chunkDirectory, digest.slice(0, 4), digest);
      await decodeOne(readFileSync(file), digest);
    }
  };
  await Promise.all(Array.from({ length: chunksAtOnce }, worker));
  const seconds = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(startCpu);
  const { active } = performance.eventLoopUtilization(startLoop);
  const counts = { 'ms of the event loop': Math.round(active) };
  return { seconds, cpuSeconds: (user + system) / 1e6, counts };
}
