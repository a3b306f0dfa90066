import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { CachedChunkReader } from '../../src/chunks/cached-chunk-reader.ts';
import { ChunkCache } from '../../src/chunks/chunk-cache.ts';
import { ChunkFetcher } from '../../src/chunks/chunk-fetcher.ts';
import { PbsfsError } from '../../src/errors.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { Semaphore } from '../../src/semaphore.ts';
import { type ImageTargetOptions, openImageTarget } from '../../src/transfer/image-target.ts';
import {
  formatRestoredImage,
  type ImageProgress,
  type RestoredImage,
  type RestoreImageOptions,
  restoreImage,
} from '../../src/transfer/restore-image.ts';
import type { OpenFile } from '../../src/tree/node.ts';
import { vectorKey } from '../support/encode-formats.ts';
import { expectError } from '../support/expect-error.ts';
import { type MemoryArchive, memoryArchive } from '../support/memory-archive.ts';
import { needs } from '../support/requirements.ts';

const chunkSize = 64 * 1024;

/** Random chunks, two runs of zeros, a duplicate of chunk 0, and a short last chunk. */
function imageData(): Buffer {
  const data = randomBytes(20 * chunkSize + 5000);
  data.fill(0, 3 * chunkSize, 6 * chunkSize).fill(0, 10 * chunkSize, 11 * chunkSize);
  data.copy(data, 15 * chunkSize, 0, chunkSize);
  return data;
}

const dataChunks = 21 - 4;

function archiveOf(data: Buffer, crypt?: CryptConfig): MemoryArchive {
  return memoryArchive(data, { cut: chunkSize, crypt });
}

function openFile(archive: MemoryArchive, crypt?: CryptConfig): OpenFile {
  const fetcher = new ChunkFetcher({
    reader: archive.reader,
    cryptMode: crypt === undefined ? 'none' : 'encrypt',
    crypt,
    limiter: new Semaphore(32),
  });
  const cache = new ChunkCache({ chunks: 1 });
  const reader = new CachedChunkReader({ index: archive.index, fetcher, cache });
  return {
    size: reader.size,
    dataSize: reader.dataSize,
    read: (offset, length, signal) => reader.read(offset, length, signal),
    nextData: (offset) => reader.nextData(offset),
    nextHole: (offset) => reader.nextHole(offset),
    chunks: reader,
    [Symbol.asyncDispose]: async () => {},
  };
}

/** Makes reads of chunks take their time, and counts the most that run at once. */
function readsAtOnce(archive: MemoryArchive): { most: number } {
  const { readChunk } = archive.reader;
  const reads = { most: 0 };
  let running = 0;
  archive.reader.readChunk = async (digest) => {
    reads.most = Math.max(reads.most, ++running);
    await sleep(2);
    running--;
    return readChunk(digest);
  };
  return reads;
}

function temporaryPath(context: TestContext, name = 'image'): string {
  const directory = mkdtempSync(join(tmpdir(), 'pbsfs-restore-'));
  context.after(() => rmSync(directory, { recursive: true }));
  return join(directory, name);
}

async function restore(
  file: OpenFile,
  path: string,
  options: ImageTargetOptions & Partial<RestoreImageOptions> = {},
): Promise<RestoredImage> {
  await using target = await openImageTarget(path, file.size, options);
  return await restoreImage(file, target, { concurrency: 4, ...options });
}

test('a file gets every byte, and its zeros are holes', async (t) => {
  const path = temporaryPath(t);
  const data = imageData();
  const archive = archiveOf(data);
  const restored = await restore(openFile(archive), path);
  assert.ok(readFileSync(path).equals(data));
  assert.ok(statSync(path).blocks * 512 <= data.length - 4 * chunkSize + chunkSize);
  assert.equal(restored.bytes, data.length);
  assert.equal(restored.zeroBytes, 4 * chunkSize);
  assert.deepEqual(restored.damage, []);
  assert.ok(archive.reads.length <= dataChunks);
});

test('an image of no bytes, of one byte and of zeros only', async (t) => {
  for (const data of [Buffer.alloc(0), Buffer.from('x'), Buffer.alloc(5 * chunkSize + 1)]) {
    const path = temporaryPath(t);
    await restore(openFile(archiveOf(data)), path);
    assert.ok(readFileSync(path).equals(data));
  }
});

test('a file without a map of its chunks is restored too', async (t) => {
  const path = temporaryPath(t);
  const data = randomBytes(9 * 1024 * 1024 + 1);
  const { chunks: _chunks, ...file } = openFile(archiveOf(data));
  await restore(file, path);
  assert.ok(readFileSync(path).equals(data));
});

test('images that are restored at once share the chunks that may be on their way', async (t) => {
  const archive = archiveOf(randomBytes(40 * chunkSize));
  const reads = readsAtOnce(archive);
  const budget = new Semaphore(5);
  const paths = ['a', 'b', 'c'].map((name) => temporaryPath(t, name));
  // Each with a cache of its own, so that each fetches all.
  await Promise.all(
    paths.map((path) => restore(openFile(archive), path, { concurrency: 5, budget })),
  );
  assert.equal(reads.most, 5);
  const [first, ...others] = paths.map((path) => readFileSync(path));
  assert.ok(first && others.every((other) => other.equals(first)));
});

test('what was written keeps half of the cache at most', async (t) => {
  const archive = archiveOf(randomBytes(60 * chunkSize));
  for (const path of [temporaryPath(t), '/dev/null']) {
    const file = openFile(archive);
    await restore(file, path);
    const reader = file.chunks as CachedChunkReader;
    const present = Array.from({ length: 60 }, (_, i) => reader.isPresent(i)).filter(Boolean);
    // The cache has room for 64.
    assert.equal(present.length, 32, path);
  }
});

test('as many chunks are on their way as asked for, and never more', async (t) => {
  const archive = archiveOf(randomBytes(40 * chunkSize));
  const reads = readsAtOnce(archive);
  for (const path of [temporaryPath(t), '/dev/null']) {
    reads.most = 0;
    await restore(openFile(archive), path, { concurrency: 7 });
    assert.equal(reads.most, 7);
  }
});

test('progress grows to the size of the image', async (t) => {
  const told: ImageProgress[] = [];
  const data = imageData();
  await restore(openFile(archiveOf(data)), temporaryPath(t), { onProgress: (p) => told.push(p) });
  assert.ok(told.length >= dataChunks);
  for (const [i, { bytes }] of told.entries()) assert.ok(bytes > (told[i - 1]?.bytes ?? 0));
  assert.equal(told.at(-1)?.bytes, data.length);
  assert.equal(told.at(-1)?.totalBytes, data.length);
});

test('a named pipe gets the bytes in order, even where chunks come in the opposite order', async (t) => {
  const path = temporaryPath(t, 'pipe');
  execFileSync('mkfifo', [path]);
  const data = imageData();
  const archive = archiveOf(data);
  const { readChunk } = archive.reader;
  let delay = 40;
  archive.reader.readChunk = async (digest) => {
    delay = delay === 0 ? 40 : delay - 10;
    await sleep(delay);
    return readChunk(digest);
  };
  const reader = spawn('cat', [path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const received: Buffer[] = [];
  reader.stdout.on('data', (bytes: Buffer) => received.push(bytes));
  await restore(openFile(archive), path);
  await once(reader, 'close');
  assert.ok(Buffer.concat(received).equals(data));
});

test('a reader of the pipe that goes away ends the restore', async (t) => {
  const path = temporaryPath(t, 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = spawn('head', ['-c', '1', path], { stdio: 'ignore' });
  const file = openFile(archiveOf(randomBytes(60 * chunkSize)));
  await assert.rejects(restore(file, path), expectError('failed', /reader of the output has gone/));
  if (reader.exitCode === null) await once(reader, 'exit');
});

test('a full target ends the restore with a message', async () => {
  const file = openFile(archiveOf(randomBytes(4 * chunkSize)));
  await assert.rejects(restore(file, '/dev/full'), expectError('failed', /the target is full/));
});

test('a full disk ends the restore, and nothing is written after that', {
  skip: needs('root'),
}, async (t) => {
  const directory = temporaryPath(t, '.');
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${8 * chunkSize}`, 'tmpfs', directory]);
  try {
    const path = join(directory, 'image');
    const archive = archiveOf(randomBytes(64 * chunkSize));
    await assert.rejects(
      restore(openFile(archive), path),
      expectError('failed', /the target is full/),
    );
    const { blocks } = statSync(path);
    await sleep(20);
    assert.equal(statSync(path).blocks, blocks);
  } finally {
    execFileSync('umount', [directory]);
  }
});

test('a file that is there is neither replaced nor continued unless asked for', async (t) => {
  const path = temporaryPath(t);
  const data = imageData();
  writeFileSync(path, 'precious');
  const file = openFile(archiveOf(data));
  await assert.rejects(restore(file, path), expectError('failed', /exists and has 8 bytes/));
  assert.equal(readFileSync(path, 'utf8'), 'precious');
  await restore(file, path, { overwrite: true });
  assert.ok(readFileSync(path).equals(data));
});

test('a directory is refused', async (t) => {
  const file = openFile(archiveOf(imageData()));
  await assert.rejects(restore(file, temporaryPath(t, '.')), expectError('is-directory'));
});

for (const crypt of [undefined, new CryptConfig(vectorKey)]) {
  test(`resuming fetches only what is missing, ${crypt === undefined ? 'plain' : 'encrypted'}`, async (t) => {
    const path = temporaryPath(t);
    const data = imageData();
    const archive = archiveOf(data, crypt);
    await restore(openFile(archive, crypt), path);
    // Broken in the middle: the second half is missing, chunk 2 is half written, a hole holds old bytes.
    truncateSync(path, 14 * chunkSize);
    const broken = readFileSync(path);
    broken
      .fill(0, 2 * chunkSize + 500, 3 * chunkSize)
      .fill('old', 4 * chunkSize, 4 * chunkSize + 9);
    writeFileSync(path, broken);
    archive.reads.length = 0;
    const restored = await restore(openFile(archive, crypt), path, { resume: true });
    assert.ok(readFileSync(path).equals(data));
    // 2, 14, 15 (the same as 0, which is no longer in memory), 16 … 20.
    assert.equal(archive.reads.length, 8);
    assert.equal(restored.keptBytes, 9 * chunkSize);
  });
}

test('resuming refuses a file that is longer than the image', async (t) => {
  const path = temporaryPath(t);
  writeFileSync(path, Buffer.alloc(50 * chunkSize, 1));
  const file = openFile(archiveOf(imageData()));
  await assert.rejects(
    restore(file, path, { resume: true }),
    expectError('failed', /the image only/),
  );
  assert.equal(statSync(path).size, 50 * chunkSize);
});

test('what only devices and files can do is refused for a pipe', async () => {
  const file = openFile(archiveOf(imageData()));
  for (const options of [{ resume: true }, { skipZero: true }, { discard: true }]) {
    await assert.rejects(restore(file, '/dev/null', options), expectError('usage', /needs a file/));
  }
});

test('a damaged chunk is named, stands as zeros, and everything else is there', async (t) => {
  const path = temporaryPath(t);
  const data = imageData();
  const archive = archiveOf(data);
  archive.stored.delete(archive.digest(7));
  archive.stored.get(archive.digest(20))?.fill(0xff, 20);
  const { damage } = await restore(openFile(archive), path);
  const found = damage.map(({ code, context }) => [code, context.offset, context.length]);
  assert.deepEqual(found.toSorted(), [
    ['chunk-missing', 7 * chunkSize, chunkSize],
    ['corrupt', 20 * chunkSize, 5000],
  ]);
  const expected = Buffer.from(data);
  expected.fill(0, 7 * chunkSize, 8 * chunkSize).fill(0, 20 * chunkSize);
  assert.ok(readFileSync(path).equals(expected));
});

test('a damaged chunk ends a pipe, with nothing of what follows written', async (t) => {
  const path = temporaryPath(t, 'pipe');
  execFileSync('mkfifo', [path]);
  const data = imageData();
  const archive = archiveOf(data);
  archive.stored.delete(archive.digest(7));
  const reader = spawn('cat', [path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const received: Buffer[] = [];
  reader.stdout.on('data', (bytes: Buffer) => received.push(bytes));
  await assert.rejects(restore(openFile(archive), path), expectError('chunk-missing'));
  await once(reader, 'close');
  assert.ok(Buffer.concat(received).equals(data.subarray(0, 7 * chunkSize)));
});

test('an unreachable repository ends the restore and stops what is on its way', async (t) => {
  const archive = archiveOf(randomBytes(40 * chunkSize));
  const { readChunk } = archive.reader;
  const signals: (AbortSignal | undefined)[] = [];
  archive.reader.readChunk = async (digest, signal) => {
    if (archive.reads.length < 5) return readChunk(digest, signal);
    signals.push(signal);
    if (signals.length === 3) throw new PbsfsError('unreachable', 'server is gone');
    return new Promise(() => {});
  };
  await assert.rejects(
    restore(openFile(archive), temporaryPath(t)),
    expectError('unreachable', /server is gone/),
  );
  assert.equal(signals.filter((signal) => signal?.aborted === true).length, signals.length - 1);
});

test('a signal stops a restore', async (t) => {
  const archive = archiveOf(randomBytes(40 * chunkSize));
  const controller = new AbortController();
  const { readChunk } = archive.reader;
  archive.reader.readChunk = async (digest, signal) => {
    if (archive.reads.length === 9) controller.abort();
    return readChunk(digest, signal);
  };
  for (const path of [temporaryPath(t), '/dev/null']) {
    archive.reads.length = 0;
    await assert.rejects(
      restore(openFile(archive), path, { signal: controller.signal }),
      expectError('aborted'),
    );
  }
});

test('a block device', {
  skip: needs('root', 'loop-device', 'losetup', 'blkdiscard'),
}, async (t) => {
  const backing = temporaryPath(t);
  const old = Buffer.alloc(24 * chunkSize, 0xee);
  const data = imageData();
  const file = openFile(archiveOf(data));
  const attach = (): string => {
    writeFileSync(backing, old);
    const device = execFileSync('losetup', ['--find', '--show', backing], {
      encoding: 'utf8',
    }).trim();
    t.after(() => execFileSync('losetup', ['--detach', device]));
    return device;
  };
  const content = (device: string): Buffer => {
    execFileSync('blockdev', ['--flushbufs', device]);
    return readFileSync(device);
  };
  await t.test('gets zeros written, and nothing behind the image', async () => {
    const device = attach();
    await restore(file, device);
    assert.ok(content(device).equals(Buffer.concat([data, old.subarray(data.length)])));
  });
  await t.test('makes its zeros itself where that is asked for', async () => {
    const device = attach();
    await restore(file, device, { discard: true });
    assert.ok(content(device).equals(Buffer.concat([data, old.subarray(data.length)])));
  });
  await t.test('keeps what it has in place of zeros with --skip-zero', async () => {
    const device = attach();
    await restore(file, device, { skipZero: true });
    const expected = Buffer.concat([data, old.subarray(data.length)]);
    expected.fill(0xee, 3 * chunkSize, 6 * chunkSize).fill(0xee, 10 * chunkSize, 11 * chunkSize);
    assert.ok(content(device).equals(expected));
  });
  await t.test('is continued where a restore was broken', async () => {
    const device = attach();
    await restore(file, device);
    execFileSync('dd', [
      `of=${device}`,
      'bs=64k',
      'seek=8',
      'count=2',
      'if=/dev/zero',
      'status=none',
    ]);
    const restored = await restore(file, device, { resume: true });
    assert.equal(restored.keptBytes, data.length - (4 + 2) * chunkSize);
    assert.ok(content(device).equals(Buffer.concat([data, old.subarray(data.length)])));
  });
  await t.test('that is too small is refused before anything is written', async () => {
    const device = attach();
    const large = openFile(archiveOf(randomBytes(25 * chunkSize)));
    await assert.rejects(restore(large, device), expectError('failed', /smaller than the image/));
    assert.ok(content(device).equals(old));
  });
});

test('the last line has the form that scripts read', () => {
  const restored = { bytes: 3 * 2 ** 30, totalBytes: 0, zeroBytes: 0, keptBytes: 0, damage: [] };
  assert.equal(
    formatRestoredImage({ ...restored, seconds: 12.3456 }),
    'restore image complete (bytes=3221225472, duration=12.35s, speed=248.83MB/s)',
  );
  assert.match(formatRestoredImage({ ...restored, bytes: 0, seconds: 0 }), /speed=0\.00MB\/s\)$/);
});
