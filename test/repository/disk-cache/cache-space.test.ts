/** The bound holds, and what goes is what was used longest ago. */
import assert from 'node:assert/strict';
import { readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CacheSpace } from '../../../src/repository/disk-cache/cache-space.ts';
import { temporaryDirectory } from '../../transfer/support/temporary-directory.ts';
import { chunkSize, fileOf, keptIn, openCached, randomArchive } from './cached-archive.ts';

/** Every stored chunk of random bytes has the same length. */
const [storedSize = 0] = [...randomArchive(1).stored.values()].map((raw) => raw.length);

function sizeOf(directory: string): number {
  let size = 0;
  for (const path of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const stats = statSync(join(directory, path), { throwIfNoEntry: false });
    if (stats?.isFile() && path !== 'CACHEDIR.TAG') size += stats.size;
  }
  return size;
}

/** The last use of chunk `i`, in seconds. */
function setUsed(directory: string, digest: string, seconds: number): void {
  utimesSync(fileOf(directory, digest), seconds, seconds);
}

test('the bound is kept at every moment, whatever the number of readers', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(60);
  const maxBytes = 20 * storedSize;
  await using cached = await openCached(directory.path, archive, { maxBytes });
  const order = Array.from({ length: 60 }, (_, i) => i);
  let largest = 0;
  const reader = async (): Promise<void> => {
    for (let i = order.shift(); i !== undefined; i = order.shift()) {
      const bytes = await cached.read(i);
      assert.ok(bytes.equals(archive.data.subarray(i * chunkSize, (i + 1) * chunkSize)));
      largest = Math.max(largest, sizeOf(directory.path));
    }
  };
  await Promise.all(Array.from({ length: 8 }, reader));
  assert.ok(largest <= maxBytes, `${largest} of ${maxBytes} bytes`);
  assert.ok(largest > 0.8 * maxBytes, `${largest} of ${maxBytes} bytes`);
  assert.deepEqual(cached.log, []);
});

test('everything is kept that fits, to the last chunk', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(20);
  await using cached = await openCached(directory.path, archive, { maxBytes: 20 * storedSize });
  await cached.readAll();
  assert.deepEqual(keptIn(directory.path), new Set(archive.stored.keys()));
});

test('the chunks used longest ago go first', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(21);
  await using cached = await openCached(directory.path, archive, { maxBytes: 20 * storedSize });
  for (let i = 0; i < 20; i++) {
    await cached.read(i);
    setUsed(directory.path, archive.digest(i), 1000 + i);
  }
  // Used again, so the next oldest is 2.
  await cached.read(0);
  await cached.read(1);
  await cached.read(20);
  const kept = keptIn(directory.path);
  const gone = Array.from({ length: 21 }, (_, i) => i).filter((i) => !kept.has(archive.digest(i)));
  assert.deepEqual(gone, [2]);
});

test('a smaller bound than before takes effect with the first new chunk', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(30);
  {
    await using large = await openCached(directory.path, archive);
    for (let i = 0; i < 29; i++) await large.read(i);
  }
  const maxBytes = 10 * storedSize;
  await using small = await openCached(directory.path, archive, { maxBytes });
  await small.read(29);
  assert.ok(sizeOf(directory.path) <= maxBytes);
  assert.ok(keptIn(directory.path).has(archive.digest(29)));
});

test('a chunk larger than the whole bound is not kept, and costs no other', async () => {
  using directory = temporaryDirectory();
  const [small, archive] = [randomArchive(1), randomArchive(1)];
  {
    await using filled = await openCached(directory.path, small);
    await filled.read(0);
  }
  await using cached = await openCached(directory.path, archive, { maxBytes: storedSize - 1 });
  await cached.read(0);
  assert.deepEqual([...keptIn(directory.path)], [small.digest(0)]);
  assert.deepEqual(cached.log, []);
});

test('two mounts on one directory keep the bound together, but for a sixteenth', async () => {
  using directory = temporaryDirectory();
  const maxBytes = 32 * storedSize;
  const archives = [randomArchive(50), randomArchive(50)];
  let largest = 0;
  await Promise.all(
    archives.map(async (archive) => {
      await using cached = await openCached(directory.path, archive, { maxBytes });
      for (let i = 0; i < 50; i++) {
        await cached.read(i);
        largest = Math.max(largest, sizeOf(directory.path));
      }
      assert.deepEqual(cached.log, []);
    }),
  );
  // And one chunk of each, which is no small part here.
  assert.ok(largest <= maxBytes * (1 + 1 / 16) + 2 * storedSize, `${largest} of ${maxBytes} bytes`);
});

test('what a killed writer left goes after an hour, what another is writing stays', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(1);
  await using cached = await openCached(directory.path, archive);
  const file = fileOf(directory.path, archive.digest(0));
  await cached.read(0);
  const left = `${file}.0e4fdc07-43fd-4ab1-96c0-0ba5a44e5d5c.tmp`;
  const writing = `${file}.1e4fdc07-43fd-4ab1-96c0-0ba5a44e5d5c.tmp`;
  for (const path of [left, writing]) writeFileSync(path, 'half a chunk');
  const twoHoursAgo = Date.now() / 1000 - 7200;
  utimesSync(left, twoHoursAgo, twoHoursAgo);
  await new CacheSpace(directory.path, 2 ** 20).add(1, async () => {});
  assert.deepEqual(keptIn(directory.path), new Set([archive.digest(0), writing.slice(-105)]));
});

test('files that are not ours are neither counted nor removed', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(3);
  await using cached = await openCached(directory.path, archive, { maxBytes: 2 * storedSize });
  const foreign = [join(directory.path, 'note'), join(directory.path, 'abc')];
  for (const path of foreign) writeFileSync(path, Buffer.alloc(10 * storedSize));
  await cached.read(0);
  writeFileSync(`${fileOf(directory.path, archive.digest(0))}.txt`, 'dear');
  await cached.readAll();
  for (const path of foreign) assert.equal(statSync(path).size, 10 * storedSize);
  assert.ok(keptIn(directory.path).has(`${archive.digest(0)}.txt`));
});
