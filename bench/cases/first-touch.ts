/** Reads of 4 KiB, each from a chunk that nobody has touched before: how long a guest waits for a cold block. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { BenchCase, PreparedCase, Sample } from '../support/bench-case.ts';
import { type DataChunk, dataChunks } from '../support/dataset.ts';
import { decodeStoredChunk } from '../support/decode-limit.ts';
import { chunkSize } from '../support/image-content.ts';
import { mountPbsfs, readingMount } from '../support/mounts.ts';

const maxReads = 200;
const blockSize = 4096;
const mountName = 'pbsfs mount';
const oneChunkName = 'one chunk: read, unpack, hash';

export const firstTouch: BenchCase = {
  name: 'first-touch',
  title: 'One read of 4 KiB at a random offset, first touch, local datastore',
  prepare: async (environment): Promise<PreparedCase> => {
    const dataset = environment.dataset();
    const { store, imagePath, chunkDirectory } = dataset;
    const chunks = shuffled(dataChunks(dataset)).slice(0, maxReads);
    const decodeEach = async () =>
      meanTime(chunks, ({ digest }) => decodeStoredChunk(chunkDirectory, digest));
    const touchEach = async (path: string) => {
      // Past the page cache, or the kernel would read ahead.
      await using file = await open(path, constants.O_RDONLY | constants.O_DIRECT);
      const block = Buffer.alloc(blockSize);
      return await meanTime(chunks, ({ position }) =>
        file.read(block, 0, blockSize, position * chunkSize),
      );
    };
    return {
      work: { amount: 1, unit: 'ms' },
      contestants: [
        { name: oneChunkName, run: decodeEach },
        readingMount(mountName, mountPbsfs(store), imagePath, touchEach),
      ],
      wanted: [
        {
          what: 'times reading, unpacking and hashing one chunk',
          bound: 'at most',
          limit: 1.3,
          value: (medians) => {
            const [mine, other] = [medians.seconds(mountName), medians.seconds(oneChunkName)];
            return mine === undefined || other === undefined ? undefined : mine / other;
          },
        },
      ],
      [Symbol.asyncDispose]: async () => {},
    };
  },
};

/** The same order in every run. */
function shuffled(chunks: readonly DataChunk[]): DataChunk[] {
  let state = 1;
  const random = () => {
    // MINSTD
    state = (state * 48_271) % 0x7fff_ffff;
    return state;
  };
  return chunks
    .map((chunk) => ({ chunk, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ chunk }) => chunk);
}

async function meanTime(
  chunks: readonly DataChunk[],
  action: (chunk: DataChunk) => unknown,
): Promise<Sample> {
  const start = performance.now();
  for (const chunk of chunks) await action(chunk);
  return { seconds: (performance.now() - start) / 1000 / chunks.length };
}
