/** A disk of 4 TiB, whose index has 1,048,576 entries: opening it must not take long, nor much memory. */
import { randomFillSync } from 'node:crypto';
import { open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { formatSnapshot } from '../../src/formats/snapshot-path.ts';
import type { BenchCase, PreparedCase, Sample } from '../support/bench-case.ts';
import { imageName, snapshotOf, writeImageIndex } from '../support/dataset.ts';
import { chunkContent, chunkSize } from '../support/image-content.ts';
import { mount, mountPbsfs } from '../support/mounts.ts';
import { costOf, forgetPeak, residentBytes } from '../support/processes.ts';
import { ChunkWriter, hasSnapshot } from '../support/store-writer.ts';

const chunkCount = 2 ** 20;
const digestSize = 32;
const indexMiB = (chunkCount * digestSize) / 2 ** 20;
const mountName = 'open, look at and read the first block';

export const largeIndex: BenchCase = {
  name: 'large-index',
  title: 'Opening a 4 TiB image, 1,048,576 index entries, local datastore',
  prepare: async (environment): Promise<PreparedCase> => {
    const store = join(environment.directory, 'store');
    const snapshot = snapshotOf('104');
    if (!hasSnapshot(store, snapshot)) {
      writeImageIndex(store, snapshot, chunkCount * chunkSize, makeDigests(store));
    }
    const imagePath = join(formatSnapshot(snapshot), imageName);
    return {
      work: { amount: 1, unit: 'ms' },
      contestants: [{ name: mountName, run: () => openImage(store, imagePath) }],
      wanted: [
        {
          what: 'to open it',
          bound: 'at most',
          limit: 1,
          unit: ' s',
          value: (medians) => medians.seconds(mountName),
        },
        {
          what: 'times the index file: what memory grows by',
          bound: 'at most',
          limit: 3,
          value: (medians) => {
            const bytes = medians.peakBytes(mountName);
            return bytes === undefined ? undefined : bytes / 2 ** 20 / indexMiB;
          },
        },
      ],
      [Symbol.asyncDispose]: async () => {},
    };
  },
};

/** Only the first chunk is there; the others all differ. */
function makeDigests(store: string): Buffer[] {
  const first = new ChunkWriter(store).write(chunkContent(0, chunkSize));
  const drawn = randomFillSync(Buffer.alloc(chunkCount * digestSize));
  return Array.from({ length: chunkCount }, (_, i) =>
    i === 0 ? first : drawn.subarray(i * digestSize, (i + 1) * digestSize),
  );
}

/** The time, and by how much the memory of the mount grew at most. */
async function openImage(store: string, imagePath: string): Promise<Sample> {
  await using mounted = await mount(mountPbsfs(store));
  const path = join(mounted.directory, imagePath);
  forgetPeak(mounted.pid);
  const before = residentBytes(mounted.pid);
  const start = performance.now();
  await stat(path);
  await using file = await open(path);
  await file.read(Buffer.alloc(512), 0, 512, 0);
  const seconds = (performance.now() - start) / 1000;
  const { peakBytes = before } = costOf(mounted.pid);
  return { seconds, peakBytes: peakBytes - before };
}
