import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { AsyncLruCache } from '../../src/chunks/async-lru-cache.ts';
import { CachedChunkReader } from '../../src/chunks/cached-chunk-reader.ts';
import { ChunkFetcher } from '../../src/chunks/chunk-fetcher.ts';
import { ChunkMemory } from '../../src/chunks/chunk-memory.ts';
import { Semaphore } from '../../src/semaphore.ts';
import { expectError } from '../support/expect-error.ts';
import { type MemoryArchive, memoryArchive } from '../support/memory-archive.ts';

const chunkSize = 64 * 1024;

function isFreed(bytes: Buffer): boolean {
  return bytes.buffer.byteLength === 0;
}

function bytesOf(length = chunkSize): Buffer {
  return Buffer.from(new ArrayBuffer(length));
}

test('memory is freed when it leaves the cache, a turn later', async () => {
  const bytes = bytesOf();
  new ChunkMemory(bytes).evict();
  assert.equal(isFreed(bytes), false);
  await turn();
  assert.equal(isFreed(bytes), true);
});

test('who got it in the turn of its eviction can still borrow it', async () => {
  const bytes = bytesOf();
  const memory = new ChunkMemory(bytes);
  memory.evict();
  await Promise.resolve();
  memory.borrow();
  await turn();
  assert.equal(isFreed(bytes), false);
  memory.giveBack();
  assert.equal(isFreed(bytes), true);
});

test('the last one who gives it back frees it, once it has left the cache', async () => {
  const bytes = bytesOf();
  const memory = new ChunkMemory(bytes);
  memory.borrow();
  memory.borrow();
  memory.giveBack();
  memory.evict();
  await turn();
  assert.equal(isFreed(bytes), false);
  memory.giveBack();
  assert.equal(isFreed(bytes), true);
});

test('what somebody took for good is left to the garbage collector', async () => {
  const bytes = bytesOf();
  const memory = new ChunkMemory(bytes);
  memory.take();
  memory.borrow();
  memory.evict();
  await turn();
  memory.giveBack();
  assert.equal(isFreed(bytes), false);
});

test('memory that may be shared with other buffers is never freed', async () => {
  const parts = [
    bytesOf(4096),
    Buffer.from(new ArrayBuffer(3 * chunkSize), chunkSize, chunkSize),
    Buffer.from(new SharedArrayBuffer(chunkSize)),
  ];
  for (const bytes of parts) new ChunkMemory(bytes).evict();
  await turn();
  for (const bytes of parts) assert.equal(isFreed(bytes), false);
});

test('a chunk that is stored plain is freed too: it lies behind its header', async () => {
  const bytes = Buffer.from(new ArrayBuffer(12 + chunkSize), 12);
  new ChunkMemory(bytes).evict();
  await turn();
  assert.equal(isFreed(bytes), true);
});

/** A reader whose cache holds `capacity` chunks, and what it has freed. */
function open(archive: MemoryArchive, capacity: number): CachedChunkReader {
  const chunks = new AsyncLruCache<ChunkMemory>({
    maxBytes: capacity * chunkSize,
    sizeOf: (chunk) => chunk.length,
    onEvict: (chunk) => chunk.evict(),
  });
  const fetcher = new ChunkFetcher({
    reader: archive.reader,
    cryptMode: 'none',
    limiter: new Semaphore(8),
  });
  return new CachedChunkReader({
    index: archive.index,
    fetcher,
    cache: {
      get: (key, load, signal) =>
        chunks.get(key, async (loadSignal) => new ChunkMemory(await load(loadSignal)), signal),
      has: (key) => chunks.has(key),
      find: (key) => chunks.find(key),
      leave: (key) => chunks.delete(key),
    },
  });
}

test('borrowed bytes stay as they are until they are given back, whatever the cache does', async () => {
  const archive = memoryArchive(randomBytes(40 * chunkSize), { cut: chunkSize });
  for (const capacity of [1, 3, 10]) {
    const reader = open(archive, capacity);
    const readers = Array.from({ length: 200 }, async (_, i) => {
      // Spread over the archive, up to three chunks each.
      const offset = (i * 7919 * 331) % (archive.data.length - 3 * chunkSize);
      const length = ((i * 104_729) % (3 * chunkSize)) + 1;
      await sleep(i % 17);
      const loan = await reader.borrow(offset, length);
      await sleep((i * 13) % 29);
      const bytes = Buffer.concat(loan.slices);
      loan[Symbol.dispose]();
      assert.ok(bytes.equals(archive.data.subarray(offset, offset + length)), `reader ${i}`);
    });
    await Promise.all(readers);
  }
});

test('bytes that were read, not borrowed, stay for ever', async () => {
  const archive = memoryArchive(randomBytes(20 * chunkSize), { cut: chunkSize });
  const reader = open(archive, 1);
  const [slice] = await reader.read(0, chunkSize);
  const loan = await reader.borrow(0, chunkSize);
  loan[Symbol.dispose]();
  for (let i = 1; i < 20; i++) (await reader.borrow(i * chunkSize, 10))[Symbol.dispose]();
  await turn();
  assert.ok(slice !== undefined && archive.data.subarray(0, chunkSize).equals(slice));
});

test('a range that fails gives back what it had of it', async () => {
  const archive = memoryArchive(randomBytes(4 * chunkSize), { cut: chunkSize });
  archive.stored.delete(archive.digest(2));
  const reader = open(archive, 1);
  await assert.rejects(reader.borrow(0, 4 * chunkSize), expectError('chunk-missing'));
  // Nothing is held any more: the chunks go as the next ones come.
  const loan = await reader.borrow(0, chunkSize);
  const [slice] = loan.slices;
  loan[Symbol.dispose]();
  (await reader.borrow(chunkSize, chunkSize))[Symbol.dispose]();
  await turn();
  assert.equal(slice?.buffer.byteLength, 0);
});

test('giving back twice counts once', async () => {
  const archive = memoryArchive(randomBytes(2 * chunkSize), { cut: chunkSize });
  const reader = open(archive, 2);
  const first = await reader.borrow(0, chunkSize);
  const second = await reader.borrow(0, chunkSize);
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  for (let i = 0; i < 2; i++) (await reader.borrow(i * chunkSize, 1))[Symbol.dispose]();
  await turn();
  assert.ok(Buffer.concat(second.slices).equals(archive.data.subarray(0, chunkSize)));
});
