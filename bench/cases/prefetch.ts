/** A whole image over a line of 20 ms, with read-ahead and without: what waiting for one chunk at a time costs. */
import { type BenchCase, type PreparedCase, speedRatio } from '../support/bench-case.ts';
import { readingServer } from '../support/mounts.ts';
import { dd } from '../support/processes.ts';

const megabyte = 1e6;
const latency = 20;
const aheadName = '--prefetch 12';
const notAheadName = '--prefetch 0';

export const prefetch: BenchCase = {
  name: 'prefetch',
  title: '`dd bs=1M` of an image on a server, 20 ms for each request',
  prepare: async (environment): Promise<PreparedCase> => {
    const { store, imagePath, size } = environment.dataset();
    const read = dd('bs=1M');
    const readAhead = (chunks: number) =>
      readingServer(
        `--prefetch ${chunks}`,
        { store, latency, options: ['--prefetch', String(chunks)] },
        imagePath,
        read,
      );
    return {
      work: { amount: size / megabyte, unit: 'MB/s' },
      contestants: [readAhead(12), readAhead(0)],
      wanted: [
        {
          what: 'times the speed without read-ahead',
          bound: 'at least',
          limit: 6,
          value: speedRatio(aheadName, notAheadName),
        },
      ],
      [Symbol.asyncDispose]: async () => {},
    };
  },
};
