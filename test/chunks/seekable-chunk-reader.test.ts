import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { CachedChunkReader } from '../../src/chunks/cached-chunk-reader.ts';
import { ChunkCache } from '../../src/chunks/chunk-cache.ts';
import { ChunkFetcher } from '../../src/chunks/chunk-fetcher.ts';
import { SeekableChunkReader } from '../../src/chunks/seekable-chunk-reader.ts';
import { isPbsfsError, PbsfsError } from '../../src/errors.ts';
import { type ReadAt, readAtBuffer } from '../../src/read-at.ts';
import { Semaphore } from '../../src/semaphore.ts';
import { memoryArchive } from '../support/memory-archive.ts';

const data = randomBytes(1000);
const isUsage = (error: unknown) => isPbsfsError(error, 'usage');

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return Buffer.concat(parts);
}

test('reads follow each other, short at the end and empty after it', async () => {
  const reader = new SeekableChunkReader(readAtBuffer(data));
  assert.deepEqual(await reader.read(600), data.subarray(0, 600));
  assert.equal(reader.position, 600);
  assert.deepEqual(await reader.read(600), data.subarray(600));
  assert.equal(reader.position, 1000);
  assert.equal((await reader.read(1)).length, 0);
  assert.equal(reader.size, 1000);
});

test('seek moves from the start, from here, from the end, and stops at the end', async () => {
  const reader = new SeekableChunkReader(readAtBuffer(data));
  assert.equal(reader.seek(100), 100);
  assert.equal(reader.seek(-40, 'current'), 60);
  assert.equal(reader.seek(-10, 'end'), 990);
  assert.deepEqual(await reader.read(100), data.subarray(990));
  assert.equal(reader.seek(5000), 1000);
  assert.equal(reader.seek(1, 'current'), 1000);
  assert.equal(reader.seek(Number.MAX_SAFE_INTEGER, 'end'), 1000);
});

test('seeking before the start, or by no whole number, is a usage error and does not move', () => {
  const reader = new SeekableChunkReader(readAtBuffer(data));
  reader.seek(7);
  assert.throws(() => reader.seek(-1), isUsage);
  assert.throws(() => reader.seek(-8, 'current'), isUsage);
  assert.throws(() => reader.seek(-1001, 'end'), isUsage);
  assert.throws(() => reader.seek(Number.NaN), isUsage);
  assert.throws(() => reader.seek(0.5), isUsage);
  assert.equal(reader.position, 7);
});

test('a read that fails does not move, and a bad length is a usage error', async () => {
  let isBroken = true;
  const inner = readAtBuffer(data);
  const source: ReadAt = {
    size: inner.size,
    read: async (offset, length) => {
      if (isBroken) throw new PbsfsError('unreachable', 'gone');
      return await inner.read(offset, length);
    },
  };
  const reader = new SeekableChunkReader(source);
  await assert.rejects(reader.read(10), (error) => isPbsfsError(error, 'unreachable'));
  await assert.rejects(reader.read(-1), isUsage);
  isBroken = false;
  assert.deepEqual(await reader.read(10), data.subarray(0, 10));
});

test('iterator and stream give everything from the position on', async () => {
  for (const start of [0, 333, 1000]) {
    const iterated = new SeekableChunkReader(readAtBuffer(data));
    iterated.seek(start);
    assert.deepEqual(await collect(iterated), data.subarray(start));
    assert.equal(iterated.position, 1000);
    const streamed = new SeekableChunkReader(readAtBuffer(data));
    streamed.seek(start);
    assert.deepEqual(await buffer(streamed.stream()), data.subarray(start));
  }
});

/** 5 MiB and a bit, in chunks of sizes around the step of the stream. */
const large = randomBytes(5 * 1024 * 1024 + 77);

function chunked(cut: number | readonly number[]) {
  const archive = memoryArchive(large, { cut });
  const { reader, index } = archive;
  const fetcher = new ChunkFetcher({ reader, cryptMode: 'none', limiter: new Semaphore(8) });
  const cache = new ChunkCache({ chunks: 1 });
  return { archive, source: new CachedChunkReader({ index, fetcher, cache }) };
}

test('a stream with a cache of one chunk fetches every chunk once', async () => {
  const megabyte = 1024 * 1024;
  const uneven = [megabyte + 5, 2 * megabyte - 3, megabyte, large.length - 4 * megabyte - 2];
  for (const cut of [4 * megabyte, 65_536, uneven]) {
    const { archive, source } = chunked(cut);
    assert.deepEqual(await buffer(new SeekableChunkReader(source).stream()), large);
    assert.equal(archive.reads.length, archive.index.chunkCount);
  }
});

test('a slow consumer is not read ahead of', async () => {
  const { archive, source } = chunked(1024 * 1024);
  const stream = new SeekableChunkReader(source).stream();
  const iterator = stream[Symbol.asyncIterator]();
  await iterator.next();
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.ok(archive.reads.length <= 3, `${archive.reads.length} chunks`);
  stream.destroy();
});

test('an error ends the stream, and destroying it stops the read under way', async () => {
  const failing: ReadAt = {
    size: 10,
    read: async () => {
      throw new PbsfsError('corrupt', 'bad chunk');
    },
  };
  await assert.rejects(buffer(new SeekableChunkReader(failing).stream()), (error) =>
    isPbsfsError(error, 'corrupt'),
  );

  const { promise: stopped, resolve } = Promise.withResolvers<void>();
  const hanging: ReadAt = {
    size: 10,
    read: (_offset, _length, signal) =>
      new Promise((_, reject) => {
        signal?.addEventListener('abort', () => {
          reject(new PbsfsError('aborted', 'interrupted'));
          resolve();
        });
      }),
  };
  const stream = new SeekableChunkReader(hanging).stream();
  const piped = pipeline(stream, async (chunks) => await collect(chunks));
  await new Promise((done) => setImmediate(done));
  stream.destroy(new Error('reader went away'));
  await assert.rejects(piped, /went away/);
  await stopped;
});
