/** One big file in a pxar archive beside an image with the same bytes: what the archive between costs. */
import {
  type BenchCase,
  memoryWithin,
  type PreparedCase,
  speedRatio,
} from '../support/bench-case.ts';
import { chunkSize } from '../support/image-content.ts';
import { mountCacheBytes, mountPbsfs, readingMount } from '../support/mounts.ts';
import { timed } from '../support/processes.ts';
import { makeBigFile } from '../support/pxar-dataset.ts';

const megabyte = 1e6;
const fileName = 'a file in a pxar archive';
const imageName = 'an image with the same bytes';

export const bigFile: BenchCase = {
  name: 'big-file',
  title: '`cat` of a big file in a pxar archive, local datastore',
  prepare: async (environment): Promise<PreparedCase> => {
    const chunks = Math.floor(environment.imageSize / 2 / chunkSize);
    const size = chunks * chunkSize;
    const { store, imagePath } = environment.dataset({ id: '102', size });
    const { filePath } = makeBigFile(store, chunks);
    const read = (path: string) => timed('cat', [path]);
    return {
      work: { amount: size / megabyte, unit: 'MB/s' },
      contestants: [
        readingMount(imageName, mountPbsfs(store), imagePath, read),
        readingMount(fileName, mountPbsfs(store), filePath, read),
      ],
      wanted: [
        {
          what: 'of the image',
          bound: 'at least',
          limit: 0.9,
          value: speedRatio(fileName, imageName),
        },
        memoryWithin(fileName, mountCacheBytes, 200),
      ],
      [Symbol.asyncDispose]: async () => {},
    };
  },
};
