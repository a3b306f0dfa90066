/** `qemu-img convert` of an image that is nearly empty: the empty part must cost nothing. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type BenchCase, memoryWithin, type PreparedCase } from '../support/bench-case.ts';
import { chunkSize } from '../support/image-content.ts';
import { mountCacheBytes, mountPbsfs, readingMount } from '../support/mounts.ts';
import { timed } from '../support/processes.ts';

const megabyte = 1e6;
const timesLarger = 16;
const sparseName = 'with 15 times as much empty space';
const fullName = 'the data alone';

export const sparseConvert: BenchCase = {
  name: 'sparse-convert',
  title: '`qemu-img convert` of an image that is mostly empty, local datastore',
  needs: ['qemu-img'],
  prepare: async (environment): Promise<PreparedCase> => {
    const usedChunks = Math.floor(environment.imageSize / 2 / chunkSize);
    const size = usedChunks * chunkSize;
    const full = environment.dataset({ id: '102', size });
    const sparse = environment.dataset({ id: '103', size: timesLarger * size, usedChunks });
    const target = join(environment.directory, 'converted.img');
    const convert = async (path: string) => {
      rmSync(target, { force: true });
      // Past the page cache: what writing there costs changes from one run to the next by more than all reading.
      const formats = ['-f', 'raw', '-O', 'raw', '-t', 'none'];
      return await timed('qemu-img', ['convert', ...formats, path, target]);
    };
    return {
      work: { amount: size / megabyte, unit: 'MB/s' },
      contestants: [
        readingMount(fullName, mountPbsfs(full.store), full.imagePath, convert),
        readingMount(sparseName, mountPbsfs(sparse.store), sparse.imagePath, convert),
      ],
      wanted: [
        {
          what: 'times the time for the data alone',
          bound: 'at most',
          limit: 1.1,
          value: (medians) => {
            const [mine, other] = [medians.seconds(sparseName), medians.seconds(fullName)];
            return mine === undefined || other === undefined ? undefined : mine / other;
          },
        },
        memoryWithin(sparseName, mountCacheBytes),
      ],
      [Symbol.asyncDispose]: async () => rmSync(target, { force: true }),
    };
  },
};
