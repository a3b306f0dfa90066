import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { AsyncLruCache } from '../../src/chunks/async-lru-cache.ts';
import { CachedChunkReader } from '../../src/chunks/cached-chunk-reader.ts';
import type { ChunkCache } from '../../src/chunks/chunk-cache.ts';
import { ChunkFetcher } from '../../src/chunks/chunk-fetcher.ts';
import { ChunkMemory } from '../../src/chunks/chunk-memory.ts';
import { readChunkRange } from '../../src/chunks/chunk-range.ts';
import { SeekableChunkReader } from '../../src/chunks/seekable-chunk-reader.ts';
import { isPbsfsError } from '../../src/errors.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { readBytes } from '../../src/read-at.ts';
import { Semaphore } from '../../src/semaphore.ts';
import { vectorKey } from '../support/encode-formats.ts';
import { type MemoryArchive, memoryArchive } from '../support/memory-archive.ts';

const crypt = new CryptConfig(vectorKey);
const smallChunk = 512;

/** Runs of zeros, of one byte and of noise, so that chunks repeat and are empty now and then. */
const content = fc
  .array(
    fc.record({
      length: fc.integer({ min: 0, max: 1500 }),
      fill: fc.constantFrom('zero', 'one', 'noise'),
      seed: fc.integer({ min: 1, max: 3 }),
    }),
    { maxLength: 8 },
  )
  .map((runs) =>
    Buffer.concat(
      runs.map(({ length, fill, seed }) => {
        if (fill === 'zero') return Buffer.alloc(length);
        if (fill === 'one') return Buffer.alloc(length, seed);
        return Buffer.from(
          Array.from({ length }, (_, i) => (i * i * 31 + seed * 7 + (i >> 3)) & 255),
        );
      }),
    ),
  );

function cutsOf(size: number, steps: readonly number[]): number[] {
  const lengths: number[] = [];
  for (let at = 0, i = 0; at < size; i++) {
    const length = Math.min(steps[i % steps.length] ?? 1, size - at);
    lengths.push(length);
    at += length;
  }
  return lengths;
}

const archive = fc
  .record({
    data: content,
    steps: fc.option(fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 1, maxLength: 5 })),
    isEncrypted: fc.boolean(),
    padLast: fc.boolean(),
  })
  .map(({ data, steps, isEncrypted, padLast }) => {
    const cut = steps === null ? smallChunk : cutsOf(data.length, steps);
    return {
      isEncrypted,
      archive: memoryArchive(data, { cut, padLast, crypt: isEncrypted ? crypt : undefined }),
    };
  });

const offset = fc.integer({ min: 0, max: 13_000 });
const ranges = fc.array(fc.tuple(offset, offset), { minLength: 1, maxLength: 12 });

function readerOf(from: MemoryArchive, isEncrypted: boolean, maxBytes: number): CachedChunkReader {
  const cryptMode = isEncrypted ? 'encrypt' : 'none';
  const limiter = new Semaphore(4);
  const fetcher = new ChunkFetcher({ reader: from.reader, cryptMode, crypt, limiter });
  // Of any size, also far below a chunk.
  const chunks = new AsyncLruCache<ChunkMemory>({ maxBytes, sizeOf: (chunk) => chunk.length });
  const cache: Pick<ChunkCache, 'find' | 'get' | 'has' | 'leave'> = {
    get: (key, load, signal) =>
      chunks.get(key, async (loadSignal) => new ChunkMemory(await load(loadSignal)), signal),
    has: (key) => chunks.has(key),
    find: (key) => chunks.find(key),
    leave: (key) => chunks.delete(key),
  };
  return new CachedChunkReader({ index: from.index, fetcher, cache });
}

test('reads at once, in any order, with any cache, equal slices of what was stored', async () => {
  await fc.assert(
    fc.asyncProperty(
      archive,
      ranges,
      fc.integer({ min: 1, max: 5000 }),
      async (made, wanted, maxBytes) => {
        const { data } = made.archive;
        const reader = readerOf(made.archive, made.isEncrypted, maxBytes);
        assert.equal(reader.size, data.length);
        await Promise.all(
          wanted.map(async ([start, length]) => {
            const slices = await reader.read(start, length);
            assert.ok(slices.every((slice) => slice.length > 0));
            assert.ok(Buffer.concat(slices).equals(data.subarray(start, start + length)));
          }),
        );
      },
    ),
    { numRuns: 100 },
  );
});

test('positions, iterators and mixtures of both give the bytes in order', async () => {
  await fc.assert(
    fc.asyncProperty(archive, fc.array(offset, { maxLength: 6 }), async (made, lengths) => {
      const { data } = made.archive;
      const reader = new SeekableChunkReader(readerOf(made.archive, made.isEncrypted, 1));
      const parts: Uint8Array[] = [];
      for (const length of lengths) parts.push(await reader.read(length));
      for await (const part of reader) parts.push(part);
      assert.ok(Buffer.concat(parts).equals(data));
    }),
    { numRuns: 60 },
  );
});

test('holes and data alternate, hold zeros only, and add up', () => {
  fc.assert(
    fc.property(archive, ({ archive: { data, index, reader }, isEncrypted }) => {
      const cached = readerOf({ data, index, reader } as MemoryArchive, isEncrypted, 1);
      let dataBytes = 0;
      for (let at = 0; at < data.length; ) {
        const start = cached.nextData(at) ?? data.length;
        assert.ok(start >= at && data.subarray(at, start).every((byte) => byte === 0));
        const end = cached.nextHole(start);
        assert.ok(end >= start && (end > start || start === data.length));
        dataBytes += end - start;
        at = end;
      }
      assert.equal(dataBytes, cached.dataSize);
    }),
    { numRuns: 150 },
  );
});

test('one bad chunk fails the reads that touch it, and no others', async () => {
  await fc.assert(
    fc.asyncProperty(archive, ranges, fc.nat(), async (made, wanted, pick) => {
      const { data, index, stored } = made.archive;
      fc.pre(index.chunkCount > 0);
      const digest = index.digest(pick % index.chunkCount);
      const raw = stored.get(digest.toString('hex'));
      assert.ok(raw);
      const broken = Buffer.from(raw);
      broken.writeUInt8(broken.readUInt8(0) ^ 1, 0);
      stored.set(digest.toString('hex'), broken);
      const reader = readerOf(made.archive, made.isEncrypted, 1);
      for (const [start, length] of wanted) {
        let isBad = false;
        await readChunkRange(index, start, length, async (i) => {
          const from = index.chunkStart(i);
          const isHole = reader.nextData(from) !== from;
          if (index.hasDigest(i, digest) && !isHole) isBad = true;
          return Buffer.alloc(index.chunkEnd(i) - from);
        });
        const read = readBytes(reader, start, length);
        if (isBad) await assert.rejects(read, (error) => isPbsfsError(error, 'corrupt'));
        else assert.ok((await read).equals(data.subarray(start, start + length)));
      }
    }),
    { numRuns: 100 },
  );
});
