/** Reads of 4 KiB at random offsets of what is cached already: what the mount itself costs. */
import { fileURLToPath } from 'node:url';
import { type BenchCase, type PreparedCase, speedRatio } from '../support/bench-case.ts';
import { mountMemory, mountPbsfs, readingMount } from '../support/mounts.ts';
import { run } from '../support/processes.ts';

const program = fileURLToPath(new URL('../support/random-reads.ts', import.meta.url));
const reads = 20_000;
/** A quarter of the default cache. */
const region = 64 * 1024 * 1024;
const mountName = 'pbsfs mount';
const memoryName = 'memory mount';

function randomCached(readers: number): BenchCase {
  return {
    name: `random-cached-${readers}`,
    title: `4 KiB at random offsets of cached data, ${readers === 1 ? '1 reader' : `${readers} readers`}`,
    prepare: async (environment): Promise<PreparedCase> => {
      const dataset = environment.dataset();
      const bytes = Math.min(region, dataset.size);
      const read = async (path: string) => {
        const args = [program, path, bytes, readers, reads].map(String);
        return { seconds: Number(await run(process.execPath, args)) };
      };
      return {
        work: { amount: reads, unit: 'reads/s' },
        contestants: [
          readingMount(memoryName, mountMemory(dataset.size), 'image', read),
          readingMount(mountName, mountPbsfs(dataset.store), dataset.imagePath, read),
        ],
        wanted: [
          {
            what: 'of the same reads from memory',
            bound: 'at least',
            limit: 0.85,
            value: speedRatio(mountName, memoryName),
          },
        ],
        [Symbol.asyncDispose]: async () => {},
      };
    },
  };
}

export const randomCachedBy1: BenchCase = randomCached(1);
export const randomCachedBy4: BenchCase = randomCached(4);
