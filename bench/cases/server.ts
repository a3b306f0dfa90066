/** An image read with `dd` from a mount of a live server: what the network costs, near and far. */

import { bareLoop, bareLoopName } from '../support/bare-loop.ts';
import {
  type BenchCase,
  memoryWithin,
  type PreparedCase,
  speedRatio,
  type Wanted,
} from '../support/bench-case.ts';
import { dataDigests } from '../support/dataset.ts';
import { mountCacheBytes, readingServer } from '../support/mounts.ts';
import { dd } from '../support/processes.ts';

const megabyte = 1e6;
export const loopbackName = 'pbsfs mount, loopback';
export const nearName = 'pbsfs mount, 5 ms';
export const farName = 'pbsfs mount, 20 ms';

export const server: BenchCase = {
  name: 'server',
  title: '`dd bs=1M` of an image on a server',
  prepare: async (environment): Promise<PreparedCase> => {
    const dataset = environment.dataset();
    const { store, imagePath } = dataset;
    const chunks = new Set(dataDigests(dataset)).size;
    const read = dd('bs=1M');
    return {
      work: { amount: dataset.size / megabyte, unit: 'MB/s' },
      contestants: [
        bareLoop(store, dataset.id, 'loop'),
        readingServer(loopbackName, { store }, imagePath, read),
        readingServer(nearName, { store, latency: 5 }, imagePath, read),
        readingServer(farName, { store, latency: 20 }, imagePath, read),
      ],
      wanted: [
        wanted(`of the ${bareLoopName} (loopback)`, 0.7, loopbackName, bareLoopName),
        wanted('of loopback, at 20 ms for each request', 0.8, farName, loopbackName),
        {
          what: 'requests for each chunk of data (loopback)',
          bound: 'at most',
          limit: 1,
          value: (medians) => {
            const count = medians.count(loopbackName, 'chunks');
            return count === undefined ? undefined : count / chunks;
          },
        },
        memoryWithin(loopbackName, mountCacheBytes),
        memoryWithin(farName, mountCacheBytes),
      ],
      [Symbol.asyncDispose]: async () => {},
    };
  },
};

function wanted(what: string, limit: number, name: string, of: string): Wanted {
  return { what, bound: 'at least', limit, value: speedRatio(name, of) };
}
