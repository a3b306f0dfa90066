/**
 * A whole image restored from a server, as a program that starts and ends: to a pipe, and to a file on disk, beside what
 * writing such a file takes.
 */
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
import { chunkSize } from '../support/image-content.ts';
import { timed } from '../support/processes.ts';
import { startTestServer } from '../support/test-server.ts';

const megabyte = 1e6;
/** Of `pbsfs restore`: 32 chunks. */
const cacheBytes = 32 * 4 * 1024 * 1024;
export const toPipeName = 'pbsfs restore to a pipe';
export const toFileName = 'pbsfs restore to a file';
const writeName = 'writing such a file (`dd conv=fsync`)';

export const restore: BenchCase = {
  name: 'restore',
  title: '`pbsfs restore` of an image from a server, loopback',
  prepare: async (environment): Promise<PreparedCase> => {
    const dataset = environment.dataset();
    const target = join(environment.directory, 'restored.img');
    // What is not a hole afterwards.
    const count = `count=${Math.ceil(dataset.dataSize / chunkSize)}`;
    const write = ['if=/dev/zero', `of=${target}`, 'bs=4M', count, 'conv=fsync', 'status=none'];
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
        {
          name: writeName,
          run: async () => {
            rmSync(target, { force: true });
            return await timed('dd', write);
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
        {
          what: `of the ${bareLoopName} and the writing, one after the other`,
          bound: 'at least',
          limit: 0.9,
          value: (medians) => {
            const [loop, written, mine] = [bareLoopName, writeName, toFileName].map((name) =>
              medians.seconds(name),
            );
            if (loop === undefined || written === undefined || mine === undefined) return undefined;
            return (loop + written) / mine;
          },
        },
        memoryWithin(toPipeName, cacheBytes),
        memoryWithin(toFileName, cacheBytes),
      ],
      [Symbol.asyncDispose]: async () => rmSync(target, { force: true }),
    };
  },
};
