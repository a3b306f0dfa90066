/** A whole image restored from a server, as a program that starts and ends: to a pipe, and to a file on disk. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { bareLoop, bareLoopName } from '../support/bare-loop.ts';
import {
  type BenchCase,
  memoryWithin,
  type PreparedCase,
  speedRatio,
} from '../support/bench-case.ts';
import { timedPbsfs } from '../support/commands.ts';
import { startTestServer } from '../support/test-server.ts';

const megabyte = 1e6;
/** Of `pbsfs restore`: 32 chunks. */
const cacheBytes = 32 * 4 * 1024 * 1024;
export const toPipeName = 'pbsfs restore to a pipe';
export const toFileName = 'pbsfs restore to a file';

export const restore: BenchCase = {
  name: 'restore',
  title: '`pbsfs restore` of an image from a server, loopback',
  prepare: async (environment): Promise<PreparedCase> => {
    const dataset = environment.dataset();
    const target = join(environment.directory, 'restored.img');
    const restoreTo = async (where: string, reader?: string) => {
      await using server = await startTestServer(dataset.store);
      const args = ['restore', '-r', server.repository, dataset.imagePath, where];
      const sample = await timedPbsfs(args, server.env, reader);
      return { ...sample, counts: await server.counts() };
    };
    return {
      work: { amount: dataset.size / megabyte, unit: 'MB/s' },
      contestants: [
        bareLoop(dataset.store, dataset.id, 'program'),
        { name: toPipeName, run: () => restoreTo('-', 'cat > /dev/null') },
        {
          name: toFileName,
          run: async () => {
            rmSync(target, { force: true });
            return await restoreTo(target);
          },
        },
      ],
      wanted: [
        {
          what: `of the ${bareLoopName}, to a pipe`,
          bound: 'at least',
          limit: 0.9,
          value: speedRatio(toPipeName, bareLoopName),
        },
        {
          what: `of the ${bareLoopName}, to a file`,
          bound: 'at least',
          limit: 0.8,
          value: speedRatio(toFileName, bareLoopName),
        },
        memoryWithin(toPipeName, cacheBytes),
        memoryWithin(toFileName, cacheBytes),
      ],
      [Symbol.asyncDispose]: async () => rmSync(target, { force: true }),
    };
  },
};
