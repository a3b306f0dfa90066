import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { CachedChunkReader } from '../../src/chunks/cached-chunk-reader.ts';
import { ChunkCache } from '../../src/chunks/chunk-cache.ts';
import { ChunkFetcher } from '../../src/chunks/chunk-fetcher.ts';
import { PrefetchBudget, Prefetcher } from '../../src/chunks/prefetcher.ts';
import { Semaphore } from '../../src/semaphore.ts';
import { type MemoryArchive, memoryArchive } from '../support/memory-archive.ts';

const chunkSize = 64 * 1024;
/** Such as the cache counts them. */
const cacheUnit = 4 * 1024 * 1024;

interface Opened {
  readonly reader: CachedChunkReader;
  readonly prefetcher: Prefetcher;
  /** Reads as a handle does. */
  read(offset: number, length: number): Promise<void>;
}

interface Settings {
  readonly cache?: ChunkCache;
  readonly cacheBytes?: number;
  readonly window?: number;
  readonly budget?: PrefetchBudget;
}

function open(archive: MemoryArchive, settings: Settings = {}): Opened {
  const { cacheBytes = 64 * cacheUnit, window = 12 } = settings;
  const fetcher = new ChunkFetcher({
    reader: archive.reader,
    cryptMode: 'none',
    limiter: new Semaphore(32),
  });
  const cache = settings.cache ?? new ChunkCache({ chunks: Math.ceil(cacheBytes / cacheUnit) });
  const reader = new CachedChunkReader({ index: archive.index, fetcher, cache });
  const budget =
    settings.budget ?? new PrefetchBudget({ chunks: window, cacheBytes, concurrency: 32 });
  const prefetcher = new Prefetcher(reader, budget);
  return {
    reader,
    prefetcher,
    read: async (offset, length) => {
      const slices = reader.read(offset, length);
      prefetcher.onRead(offset, length);
      await slices;
    },
  };
}

function archiveOf(chunks: number): MemoryArchive {
  return memoryArchive(randomBytes(chunks * chunkSize), { cut: chunkSize });
}

/** Until every fetch that was started has ended. */
async function settled(archive: MemoryArchive): Promise<void> {
  for (let before = -1; before !== archive.reads.length; ) {
    before = archive.reads.length;
    for (let i = 0; i < 50; i++) await turn();
  }
}

test('a forward reader has every chunk fetched once, each before it is asked for', async () => {
  const archive = archiveOf(40);
  const { read, reader } = open(archive);
  const missing: number[] = [];
  for (let i = 0; i < 40; i++) {
    if (!reader.isPresent(i)) missing.push(i);
    await read(i * chunkSize, chunkSize);
  }
  assert.deepEqual(missing, [0, 1, 2]);
  assert.equal(archive.reads.length, 40);
  assert.equal(new Set(archive.reads).size, 40);
});

test('12 chunks are in flight ahead of a reader', async () => {
  const archive = archiveOf(64);
  const { read } = open(archive);
  for (let i = 0; i < 10; i++) await read(i * chunkSize, chunkSize);
  await settled(archive);
  assert.equal(archive.reads.length, 10 + 12);
});

test('a window of 0 fetches nothing ahead', async () => {
  const archive = archiveOf(20);
  const { read } = open(archive, { window: 0 });
  for (let i = 0; i < 10; i++) await read(i * chunkSize, chunkSize);
  await settled(archive);
  assert.equal(archive.reads.length, 10);
});

test('what is cached, in flight or zero is not fetched again', async () => {
  const data = randomBytes(40 * chunkSize).fill(0, 10 * chunkSize, 20 * chunkSize);
  const archive = memoryArchive(data, { cut: chunkSize });
  const { read, reader } = open(archive);
  await reader.chunk(5);
  const inFlight = reader.chunk(6);
  for (let i = 0; i < 40; i++) await read(i * chunkSize, chunkSize);
  await inFlight;
  assert.equal(archive.reads.length, 30);
  assert.equal(new Set(archive.reads).size, 30);
});

test('a window takes a quarter of the cache, shared by the streams that run', async () => {
  const cacheBytes = 48 * chunkSize;
  const budget = new PrefetchBudget({ chunks: 100, cacheBytes, concurrency: 32 });
  const [first, second] = [archiveOf(64), archiveOf(64)];
  const [a, b] = [open(first, { budget }), open(second, { budget })];
  for (let i = 0; i < 8; i++) await a.read(i * chunkSize, chunkSize);
  await settled(first);
  assert.equal(first.reads.length, 8 + 12);
  for (let i = 0; i < 8; i++) await b.read(i * chunkSize, chunkSize);
  await settled(second);
  assert.equal(second.reads.length, 8 + 6);
});

test('who waits is not behind all that is brought ahead', async () => {
  const archive = archiveOf(64);
  const started: string[] = [];
  const { readChunk } = archive.reader;
  archive.reader.readChunk = async (digest, signal) => {
    started.push(Buffer.from(digest).toString('hex'));
    if (started.length > 3) await new Promise(() => {});
    return readChunk(digest, signal);
  };
  const budget = new PrefetchBudget({ chunks: 12, cacheBytes: 64 * cacheUnit, concurrency: 4 });
  const { read, reader } = open(archive, { budget });
  for (let i = 0; i < 3; i++) await read(i * chunkSize, chunkSize);
  await settled(archive);
  void reader.read(60 * chunkSize, 1);
  await settled(archive);
  assert.deepEqual(started.slice(3), [archive.digest(3), archive.digest(60)]);
});

test('a handle that is closed gives its share back', () => {
  const budget = new PrefetchBudget({ chunks: 12, cacheBytes: 400, concurrency: 32 });
  const { prefetcher } = open(archiveOf(8), { budget });
  for (let i = 0; i < 4; i++) prefetcher.onRead(i * chunkSize, chunkSize);
  budget.changeStreams(1);
  assert.equal(budget.bytesPerStream, 50);
  prefetcher[Symbol.dispose]();
  assert.equal(budget.bytesPerStream, 100);
});

test('what was brought ahead is still there when its turn comes, with little room to spare', async () => {
  const archive = archiveOf(200);
  const cache = new ChunkCache({ chunks: 1 });
  const { read } = open(archive, { cache, cacheBytes: cache.maxBytes, window: 100 });
  // 64 chunks fit; several reads at once, as a restore has them.
  for (let i = 0; i < 200; i += 8) {
    await Promise.all(Array.from({ length: 8 }, (_, k) => read((i + k) * chunkSize, chunkSize)));
    await settled(archive);
  }
  assert.equal(archive.reads.length, 200);
});

test('a cache of one chunk gets nothing ahead', async () => {
  const archive = archiveOf(20);
  const { read } = open(archive, { cacheBytes: chunkSize });
  for (let i = 0; i < 10; i++) await read(i * chunkSize, chunkSize);
  await settled(archive);
  assert.equal(archive.reads.length, 10);
});

test('closing stops the fetches in flight, and none starts after it', async () => {
  const archive = archiveOf(64);
  const signals: AbortSignal[] = [];
  const { readChunk } = archive.reader;
  let isStuck = false;
  archive.reader.readChunk = (digest, signal) => {
    if (!isStuck) return readChunk(digest, signal);
    if (signal !== undefined) signals.push(signal);
    return new Promise(() => {});
  };
  const { read, prefetcher } = open(archive);
  for (let i = 0; i < 3; i++) await read(i * chunkSize, chunkSize);
  isStuck = true;
  prefetcher.onRead(3 * chunkSize, chunkSize);
  prefetcher.onRead(4 * chunkSize, chunkSize);
  await settled(archive);
  assert.ok(signals.length > 0);
  assert.ok(signals.every((signal) => !signal.aborted));
  prefetcher[Symbol.dispose]();
  assert.ok(signals.every((signal) => signal.aborted));
  const started = signals.length;
  prefetcher.onRead(5 * chunkSize, chunkSize);
  await settled(archive);
  assert.equal(signals.length, started);
});

test('a chunk that cannot be fetched ahead is tried once more, by the read that needs it', async () => {
  const archive = archiveOf(20);
  const bad = archive.digest(8);
  archive.stored.delete(bad);
  const { read } = open(archive);
  const failed: number[] = [];
  for (let i = 0; i < 20; i++) {
    await read(i * chunkSize, chunkSize).catch(() => failed.push(i));
    await settled(archive);
  }
  assert.deepEqual(failed, [8]);
  assert.equal(archive.reads.filter((digest) => digest === bad).length, 2);
});

test('reads at and past the end plan nothing', () => {
  const { prefetcher } = open(archiveOf(2));
  prefetcher.onRead(2 * chunkSize, 4096);
  prefetcher.onRead(5 * chunkSize, 4096);
  prefetcher.onRead(chunkSize, 100 * chunkSize);
  prefetcher.onRead(0, 0);
});

test('a scan of an image leaves what another reader works with in the cache', async () => {
  const large = cacheUnit;
  const archive = memoryArchive(randomBytes(24 * large), { cut: large });
  const cache = new ChunkCache({ chunks: 8 });
  const settings = { cache, cacheBytes: cache.maxBytes };
  const scanning = open(archive, settings);
  const other = open(archive, settings);
  const hot = [20, 22];
  const readHot = async () => {
    for (const i of hot) await other.read(i * large, 4096);
  };
  await readHot();
  for (let i = 0; i < 16; i++) {
    await scanning.read(i * large, large);
    await settled(archive);
  }
  archive.reads.length = 0;
  await readHot();
  assert.deepEqual(archive.reads, []);
});
