/** A whole image through the mount with `dd`: the main job. */
import {
  type BenchCase,
  type Environment,
  memoryWithin,
  type PreparedCase,
  speedRatio,
} from '../support/bench-case.ts';
import { decodeLimit, decodeLimitName } from '../support/decode-limit.ts';
import { mountCacheBytes, mountMemory, mountPbsfs, readingMount } from '../support/mounts.ts';
import { borgName, peersReading, resticName } from '../support/peers.ts';
import { dd } from '../support/processes.ts';

const megabyte = 1e6;
export const mountName = 'pbsfs mount';
const memoryName = 'memory mount';

/** `dd` as most people call it, through the page cache. */
export const buffered: BenchCase = {
  name: 'sequential',
  title: '`dd bs=1M` of an image in a local datastore',
  prepare: async (environment: Environment): Promise<PreparedCase> => {
    const dataset = environment.dataset();
    const read = dd('bs=1M');
    return {
      work: { amount: dataset.size / megabyte, unit: 'MB/s' },
      contestants: [
        decodeLimit(dataset),
        readingMount(memoryName, mountMemory(dataset.size), 'image', read),
        readingMount(mountName, mountPbsfs(dataset.store), dataset.imagePath, read),
        ...(await peersReading(environment.directory, dataset.size, read)),
      ],
      wanted: [
        {
          what: 'of the combined limit (decode limit, then the same read from memory)',
          bound: 'at least',
          limit: 0.9,
          value: (medians) => {
            const parts = [decodeLimitName, memoryName].map((name) => medians.seconds(name));
            const [limit, memory, mine] = [...parts, medians.seconds(mountName)];
            if (limit === undefined || memory === undefined || mine === undefined) return undefined;
            return (limit + memory) / mine;
          },
        },
        wanted('of the decode limit', 0.55, decodeLimitName),
        wanted('times restic mount', 5, resticName),
        wanted('times borg mount', 3, borgName),
        memoryWithin(mountName, mountCacheBytes),
      ],
      [Symbol.asyncDispose]: async () => {},
    };
  },
};

/** `dd` past the page cache, in requests of 1 MiB. */
export const direct: BenchCase = {
  name: 'direct',
  title: '`dd bs=4M iflag=direct` of the same image',
  prepare: async (environment: Environment): Promise<PreparedCase> => {
    const dataset = environment.dataset();
    const read = dd('bs=4M', 'iflag=direct');
    return {
      work: { amount: dataset.size / megabyte, unit: 'MB/s' },
      contestants: [
        decodeLimit(dataset),
        readingMount(mountName, mountPbsfs(dataset.store), dataset.imagePath, read),
      ],
      wanted: [wanted('of the decode limit', 0.75, decodeLimitName)],
      [Symbol.asyncDispose]: async () => {},
    };
  },
};

function wanted(what: string, limit: number, of: string): PreparedCase['wanted'][number] {
  return { what, bound: 'at least', limit, value: speedRatio(mountName, of) };
}
