import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { CachedChunkReader } from '../../src/chunks/cached-chunk-reader.ts';
import { ChunkCache } from '../../src/chunks/chunk-cache.ts';
import { ChunkFetcher } from '../../src/chunks/chunk-fetcher.ts';
import { isPbsfsError, PbsfsError } from '../../src/errors.ts';
import { decodeIndex } from '../../src/formats/chunk-index.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { readBytes } from '../../src/read-at.ts';
import { Semaphore } from '../../src/semaphore.ts';
import {
  encodeTestBlob,
  encodeTestDynamicIndex,
  sha256,
  vectorKey,
} from '../support/encode-formats.ts';
import { type MemoryArchive, memoryArchive } from '../support/memory-archive.ts';

const k = 1024;
const chunkSize = 64 * k;
const crypt = new CryptConfig(vectorKey);

interface ReaderOptions {
  readonly cache?: ChunkCache;
  readonly limit?: number;
  readonly crypt?: CryptConfig;
}

function readerOf(archive: MemoryArchive, options: ReaderOptions = {}): CachedChunkReader {
  const fetcher = new ChunkFetcher({
    reader: archive.reader,
    cryptMode: options.crypt === undefined ? 'none' : 'encrypt',
    crypt: options.crypt,
    limiter: new Semaphore(options.limit ?? 16),
  });
  const cache = options.cache ?? new ChunkCache({ chunks: 8 });
  const context = { snapshot: 'vm/100/2023-11-14T22:13:20Z', archive: 'drive-scsi0.img.fidx' };
  return new CachedChunkReader({ index: archive.index, fetcher, cache, context });
}

function imageOf(chunks: number, last = 0): Buffer {
  return randomBytes(chunks * chunkSize + last);
}

test('4 KiB read twice fetches one chunk once', async () => {
  const archive = memoryArchive(imageOf(4), { cut: chunkSize });
  const reader = readerOf(archive);
  for (let times = 0; times < 2; times++) {
    const bytes = await readBytes(reader, chunkSize + 4096, 4096);
    assert.deepEqual(bytes, archive.data.subarray(chunkSize + 4096, chunkSize + 8192));
  }
  assert.deepEqual(archive.reads, [archive.digest(1)]);
});

test('16 parallel readers of one chunk fetch it once', async () => {
  const archive = memoryArchive(imageOf(2), { cut: chunkSize });
  const reader = readerOf(archive);
  const reads = Array.from({ length: 16 }, (_, i) => readBytes(reader, i * 4096, 4096));
  assert.deepEqual(Buffer.concat(await Promise.all(reads)), archive.data.subarray(0, chunkSize));
  assert.equal(archive.reads.length, 1);
});

test('archives that share a cache share their chunks', async () => {
  const cache = new ChunkCache({ chunks: 8 });
  const data = imageOf(2);
  const first = memoryArchive(data, { cut: chunkSize });
  const second = memoryArchive(data, { cut: [chunkSize, chunkSize] });
  await readBytes(readerOf(first, { cache }), 0, data.length);
  assert.deepEqual(await readBytes(readerOf(second, { cache }), 0, data.length), data);
  assert.equal(second.reads.length, 0);
});

test('a chunk of zeros is never fetched, plain or encrypted, whole, short or padded', async () => {
  const data = Buffer.concat([imageOf(1), Buffer.alloc(2 * chunkSize + 1000)]);
  for (const key of [undefined, crypt]) {
    for (const padLast of [false, true]) {
      const archive = memoryArchive(data, { cut: chunkSize, crypt: key, padLast });
      const reader = readerOf(archive, key === undefined ? {} : { crypt: key });
      archive.stored.delete(archive.digest(1));
      assert.deepEqual(await readBytes(reader, 0, data.length), data);
      assert.deepEqual(archive.reads, [archive.digest(0)]);
      assert.equal(reader.dataSize, chunkSize);
      assert.equal(reader.nextHole(0), chunkSize);
      assert.equal(reader.nextData(chunkSize), undefined);
    }
  }
});

test('reads give slices of the cached chunk, without a copy', async () => {
  const reader = readerOf(memoryArchive(imageOf(2), { cut: chunkSize }));
  const [a] = await reader.read(0, 100);
  const [b, c] = await reader.read(200, chunkSize);
  assert.ok(a !== undefined && b !== undefined && c !== undefined);
  assert.equal(a.buffer, b.buffer);
  assert.equal(b.byteOffset - a.byteOffset, 200);
  assert.equal(c.length, 200);
});

test('the chunks of one read are fetched together, as many as the limiter allows', async () => {
  for (const [limit, expected] of [
    [16, 8],
    [3, 3],
  ] as const) {
    const archive = memoryArchive(imageOf(8), { cut: chunkSize });
    let running = 0;
    let most = 0;
    const { readChunk } = archive.reader;
    const reader = readerOf(
      {
        ...archive,
        reader: {
          readChunk: async (digest, signal) => {
            most = Math.max(most, ++running);
            return await readChunk(digest, signal).finally(() => running--);
          },
        },
      },
      { limit },
    );
    assert.deepEqual(await readBytes(reader, 0, 8 * chunkSize), archive.data);
    assert.equal(most, expected);
  }
});

test('a read is short at the end only, and empty from there on', async () => {
  const archive = memoryArchive(imageOf(1, 10), { cut: chunkSize });
  const reader = readerOf(archive);
  const { size } = reader;
  assert.equal(size, chunkSize + 10);
  assert.deepEqual(await readBytes(reader, size - 20, 100), archive.data.subarray(size - 20));
  assert.deepEqual(await reader.read(size, 1), []);
  assert.deepEqual(await reader.read(size + 5, 1), []);
  assert.deepEqual(await reader.read(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER), []);
  assert.deepEqual(await reader.read(0, 0), []);
  const all = await readBytes(reader, 0, Number.MAX_SAFE_INTEGER);
  assert.deepEqual(all, archive.data);
});

test('an empty archive reads as nothing', async () => {
  for (const cut of [chunkSize, []]) {
    const reader = readerOf(memoryArchive(Buffer.alloc(0), { cut }));
    assert.equal(reader.size, 0);
    assert.equal(reader.dataSize, 0);
    assert.deepEqual(await reader.read(0, 10), []);
  }
});

test('a bad offset or length is a usage error', async () => {
  const reader = readerOf(memoryArchive(imageOf(1), { cut: chunkSize }));
  const isUsage = (error: unknown) => isPbsfsError(error, 'usage');
  for (const bad of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
    await assert.rejects(reader.read(bad, 1), isUsage);
    await assert.rejects(reader.read(0, bad), isUsage);
    assert.throws(() => reader.nextData(bad), isUsage);
    assert.throws(() => reader.nextHole(bad), isUsage);
  }
});

test('a failed fetch is shared by those who wait, and tried again on the next read', async () => {
  const archive = memoryArchive(imageOf(2), { cut: chunkSize });
  const raw = archive.stored.get(archive.digest(1));
  assert.ok(raw);
  archive.stored.delete(archive.digest(1));
  const reader = readerOf(archive);
  const results = await Promise.allSettled(
    Array.from({ length: 8 }, () => reader.read(chunkSize, 10)),
  );
  for (const result of results) assert.equal(result.status, 'rejected');
  assert.equal(archive.reads.length, 1);
  archive.stored.set(archive.digest(1), raw);
  assert.equal((await readBytes(reader, chunkSize, 10)).length, 10);
  assert.equal(archive.reads.length, 2);
});

test('an error names snapshot, archive, digest, and the range of the chunk', async () => {
  const archive = memoryArchive(imageOf(2, 100), { cut: chunkSize });
  archive.stored.delete(archive.digest(2));
  await assert.rejects(readerOf(archive).read(2 * chunkSize + 7, 5), (error) => {
    assert.ok(isPbsfsError(error, 'chunk-missing'));
    assert.deepEqual(error.context, {
      snapshot: 'vm/100/2023-11-14T22:13:20Z',
      archive: 'drive-scsi0.img.fidx',
      offset: 2 * chunkSize,
      length: 100,
      digest: archive.digest(2),
    });
    return true;
  });
});

test('a digest that is right for one length is refused for another, cached or not', async () => {
  const plain = randomBytes(5000);
  const digest = sha256(plain);
  // A hostile index: the same chunk again for a range of 3000, then of 7000 bytes.
  const { bytes } = encodeTestDynamicIndex([5000, 8000, 15_000].map((end) => ({ end, digest })));
  const archive = {
    ...memoryArchive(plain, { cut: [5000] }),
    index: decodeIndex('x.didx', bytes),
  };
  const reader = readerOf(archive);
  assert.deepEqual(await readBytes(reader, 0, 5000), plain);
  for (const offset of [5000, 8000]) {
    await assert.rejects(reader.read(offset, 10), (error) => isPbsfsError(error, 'corrupt'));
  }
});

test('a chunk cached from a plain archive does not pass for one of an encrypted archive', async () => {
  const cache = new ChunkCache({ chunks: 8 });
  const archive = memoryArchive(imageOf(1), { cut: chunkSize });
  await readerOf(archive, { cache }).read(0, 10);
  const encrypted = readerOf(archive, { cache, crypt });
  await assert.rejects(encrypted.read(0, 10), (error) => isPbsfsError(error, 'corrupt'));
});

test('a padded last chunk of an image shows no padding', async () => {
  const data = imageOf(2, 512);
  for (const key of [undefined, crypt]) {
    const archive = memoryArchive(data, { cut: chunkSize, padLast: true, crypt: key });
    const reader = readerOf(archive, key === undefined ? {} : { crypt: key });
    assert.equal(reader.size, data.length);
    assert.deepEqual(await readBytes(reader, 0, 10 * chunkSize), data);
    assert.deepEqual(await readBytes(reader, 2 * chunkSize + 500, 100), data.subarray(-12));
    assert.deepEqual(await reader.read(data.length, 1), []);
  }
});

test('no other chunk may be longer than its range', async () => {
  const long = randomBytes(chunkSize);
  const archive = memoryArchive(long.subarray(0, 1000), { cut: [1000] });
  const { bytes } = encodeTestDynamicIndex([{ end: 1000, digest: sha256(long) }]);
  archive.stored.set(sha256(long).toString('hex'), encodeTestBlob(long, 'zstd'));
  const reader = readerOf({ ...archive, index: decodeIndex('x.didx', bytes) });
  await assert.rejects(reader.read(0, 10), (error) => isPbsfsError(error, 'corrupt'));
});

test('a locked archive tells its size, and nothing is fetched for it', async () => {
  const archive = memoryArchive(imageOf(2), { cut: chunkSize, crypt });
  const fetcher = new ChunkFetcher({
    reader: archive.reader,
    cryptMode: 'encrypt',
    limiter: new Semaphore(1),
  });
  const reader = new CachedChunkReader({
    index: archive.index,
    fetcher,
    cache: new ChunkCache({ chunks: 1 }),
  });
  assert.equal(reader.size, 2 * chunkSize);
  assert.equal(reader.dataSize, 2 * chunkSize);
  await assert.rejects(reader.read(0, 1), (error) => isPbsfsError(error, 'key-missing'));
  assert.equal(archive.reads.length, 0);
});

test('a killed read goes at once and leaves the others their chunk', async () => {
  const archive = memoryArchive(imageOf(1), { cut: chunkSize });
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  const signals: AbortSignal[] = [];
  const reader = readerOf({
    ...archive,
    reader: {
      readChunk: async (digest, signal) => {
        if (signal !== undefined) signals.push(signal);
        await gate;
        return await archive.reader.readChunk(digest, signal);
      },
    },
  });
  const controller = new AbortController();
  const killed = reader.read(0, 10, controller.signal);
  const other = readBytes(reader, 5, 10);
  await new Promise((resolve) => setImmediate(resolve));
  controller.abort();
  await assert.rejects(killed, (error) => isPbsfsError(error, 'aborted'));
  assert.equal(signals[0]?.aborted, false);
  open();
  assert.deepEqual(await other, archive.data.subarray(5, 15));
  await assert.rejects(reader.read(0, 1, controller.signal), (error) =>
    isPbsfsError(error, 'aborted'),
  );
});

test('the fetch is stopped when the only read is killed, and the next read fetches anew', async () => {
  const archive = memoryArchive(imageOf(1), { cut: chunkSize });
  const reader = readerOf({
    ...archive,
    reader: {
      readChunk: async (digest, signal) => {
        if (archive.reads.length > 0) return await archive.reader.readChunk(digest, signal);
        archive.reads.push('hangs');
        return await new Promise((_, reject) => {
          signal?.addEventListener('abort', () => reject(new PbsfsError('aborted', 'stopped')));
        });
      },
    },
  });
  const controller = new AbortController();
  const killed = reader.read(0, 10, controller.signal);
  await new Promise((resolve) => setImmediate(resolve));
  controller.abort();
  await assert.rejects(killed, (error) => isPbsfsError(error, 'aborted'));
  assert.deepEqual(await readBytes(reader, 0, 10), archive.data.subarray(0, 10));
});

test('a chunk can be asked for by position, ahead of any read', async () => {
  const data = Buffer.concat([imageOf(1), Buffer.alloc(chunkSize), imageOf(1, 5)]);
  const archive = memoryArchive(data, { cut: chunkSize });
  const reader = readerOf(archive);
  const present = () => [0, 1, 2, 3].map((i) => reader.isPresent(i));
  assert.deepEqual(present(), [false, true, false, false], 'zeros need no fetch');
  const asked = reader.chunk(3);
  assert.deepEqual(present(), [false, true, false, true], 'it is on its way');
  assert.deepEqual(await asked, archive.data.subarray(3 * chunkSize));
  assert.equal((await readBytes(reader, 3 * chunkSize, 5)).length, 5);
  assert.equal(archive.reads.length, 1);
});
