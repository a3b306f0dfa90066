/**
 * An image whose chunks are in `--cache-dir` from an earlier mount, read with its server gone: all of it comes from the
 * local disk. A fresh mount opens the image while the server is still there, which gives it the index.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type BenchCase,
  memoryWithin,
  type PreparedCase,
  type Sample,
  speedRatio,
} from '../support/bench-case.ts';
import { measured, mount, mountCacheBytes, mountPbsfs, readingMount } from '../support/mounts.ts';
import { dd } from '../support/processes.ts';
import { startTestServer } from '../support/test-server.ts';

const megabyte = 1e6;
const localName = 'local datastore';
const cachedName = '--cache-dir, server off';
const read = dd('bs=1M');

export const diskCache: BenchCase = {
  name: 'disk-cache',
  title: '`dd bs=1M` of an image that is in the disk cache, server off',
  prepare: async (environment): Promise<PreparedCase> => {
    const { store, imagePath, size } = environment.dataset();
    const cacheDir = mkdtempSync(join(environment.directory, 'cache-'));
    await readThroughCache(store, imagePath, cacheDir, 'server stays');
    return {
      work: { amount: size / megabyte, unit: 'MB/s' },
      contestants: [
        readingMount(localName, mountPbsfs(store), imagePath, read),
        {
          name: cachedName,
          run: () => readThroughCache(store, imagePath, cacheDir, 'server goes'),
        },
      ],
      wanted: [
        {
          what: 'of the local datastore',
          bound: 'at least',
          limit: 0.7,
          value: speedRatio(cachedName, localName),
        },
        memoryWithin(cachedName, mountCacheBytes),
      ],
      [Symbol.asyncDispose]: async () => rmSync(cacheDir, { recursive: true }),
    };
  },
};

async function readThroughCache(
  store: string,
  imagePath: string,
  cacheDir: string,
  course: 'server stays' | 'server goes',
): Promise<Sample> {
  await using server = await startTestServer(store);
  const options = ['--quiet', '--cache-dir', cacheDir];
  await using mounted = await mount(mountPbsfs(server.repository, options, server.env));
  const path = join(mounted.directory, imagePath);
  await using _image = await open(path);
  if (course === 'server goes') await server[Symbol.asyncDispose]();
  return await measured(mounted, () => read(path));
}
