/** Every kind of bad chunk on a disk: an error for exactly its range, and everything else reads. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { CachedChunkReader } from '../../src/chunks/cached-chunk-reader.ts';
import { ChunkCache } from '../../src/chunks/chunk-cache.ts';
import { ChunkFetcher } from '../../src/chunks/chunk-fetcher.ts';
import { type ErrorCode, formatError, isPbsfsError } from '../../src/errors.ts';
import { decodeIndex } from '../../src/formats/chunk-index.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { readBytes } from '../../src/read-at.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import { Semaphore } from '../../src/semaphore.ts';
import {
  chunkPath,
  damageChunk,
  encodeTestBlob,
  swapChunks,
  temporaryDatastore,
  vectorKey,
  type WrittenChunk,
  writeSnapshot,
} from '../support/encode-datastore.ts';

const time = 1_700_000_000;
const chunkSize = 65_536;
const data = randomBytes(4 * chunkSize + 1000);
const crypt = new CryptConfig(vectorKey);

interface Fault {
  readonly name: string;
  readonly code: ErrorCode;
  readonly message: RegExp;
  readonly inflict: (store: string, chunk: WrittenChunk, other: WrittenChunk, key: boolean) => void;
}

function storeAs(store: string, digest: string, raw: Buffer): void {
  mkdirSync(dirname(chunkPath(store, digest)), { recursive: true });
  writeFileSync(chunkPath(store, digest), raw);
}

const faults: readonly Fault[] = [
  ...(
    [
      ['missing', 'chunk-missing', /not in the datastore/],
      ['empty', 'chunk-missing', /file is empty/],
      ['truncated', 'corrupt', /damaged: .*CRC/],
      ['bit-flip', 'corrupt', /damaged: .*CRC/],
      ['wrong-magic', 'corrupt', /magic ffffffffffffffff/],
    ] as const
  ).map(([name, code, message]) => ({
    name,
    code,
    message,
    inflict: (store: string, { digest }: WrittenChunk) => damageChunk(store, digest, name),
  })),
  {
    name: 'of 11 bytes',
    code: 'corrupt',
    message: /11 bytes/,
    inflict: (store, { digest }) => storeAs(store, digest, Buffer.alloc(11, 1)),
  },
  {
    name: 'holding other data',
    code: 'corrupt',
    message: /other data/,
    inflict: (store, { digest }, other, key) => {
      const bytes = Buffer.from(data.subarray(other.start, other.end));
      storeAs(store, digest, encodeTestBlob(bytes, key ? 'encrypted' : 'plain'));
    },
  },
  {
    name: 'of the wrong crypt kind',
    code: 'corrupt',
    message: /does not fit the crypt mode/,
    inflict: (store, { digest, start, end }, _other, key) => {
      const bytes = data.subarray(start, end);
      storeAs(store, digest, encodeTestBlob(bytes, key ? 'zstd' : 'encrypted-zstd'));
    },
  },
];

async function openImage(store: string, isEncrypted: boolean): Promise<CachedChunkReader> {
  const repository = await openDatastore(store);
  const reader = await repository.openSnapshot({ namespace: [], type: 'vm', id: '100', time });
  const cryptMode = isEncrypted ? 'encrypt' : 'none';
  return new CachedChunkReader({
    index: decodeIndex('disk.img.fidx', await reader.readFile('disk.img.fidx')),
    fetcher: new ChunkFetcher({ reader, cryptMode, crypt, limiter: new Semaphore(4) }),
    cache: new ChunkCache({ chunks: 4 }),
    context: { archive: 'disk.img.fidx' },
  });
}

function writeImage(store: string, isEncrypted: boolean): readonly WrittenChunk[] {
  return writeSnapshot(store, {
    group: 'vm/100',
    time,
    images: { 'disk.img': { data, chunkSize } },
    ...(isEncrypted ? { key: vectorKey } : {}),
  }).chunks('disk.img');
}

/** Each chunk alone, its neighbours included: only `bad` ones fail, all their bytes with the same error. */
async function checkReads(
  source: CachedChunkReader,
  chunks: readonly WrittenChunk[],
  bad: readonly WrittenChunk[],
  fault: Pick<Fault, 'code' | 'message'>,
): Promise<void> {
  for (const chunk of chunks) {
    for (const [offset, length] of [
      [chunk.start, chunk.end - chunk.start],
      [chunk.end - 1, 1],
    ] as const) {
      const read = readBytes(source, offset, length);
      if (!bad.includes(chunk)) {
        assert.deepEqual(await read, data.subarray(offset, offset + length));
        continue;
      }
      await assert.rejects(read, (error) => {
        assert.ok(isPbsfsError(error, fault.code), formatError(error));
        assert.match(error.message, fault.message);
        assert.equal(error.context.digest, chunk.digest);
        assert.equal(error.context.offset, chunk.start);
        assert.equal(error.context.length, chunk.end - chunk.start);
        return true;
      });
    }
  }
}

for (const isEncrypted of [false, true]) {
  const kind = isEncrypted ? 'encrypted' : 'plain';
  for (const fault of faults) {
    test(`a chunk ${fault.name} in an ${kind} image fails its own range only`, async () => {
      using store = temporaryDatastore();
      const chunks = writeImage(store.path, isEncrypted);
      for (const position of [1, 4]) {
        const [chunk, other] = [chunks[position], chunks[2]];
        assert.ok(chunk !== undefined && other !== undefined);
        fault.inflict(store.path, chunk, other, isEncrypted);
      }
      const bad = chunks.filter((_, i) => i === 1 || i === 4);
      // The last chunk is short, and other data may be too long for it before it is found to be other.
      const message = fault.name === 'holding other data' ? /other data|65536/ : fault.message;
      await checkReads(await openImage(store.path, isEncrypted), chunks, bad, {
        ...fault,
        message,
      });
    });
  }

  test(`two chunks of an ${kind} image that were swapped both fail`, async () => {
    using store = temporaryDatastore();
    const chunks = writeImage(store.path, isEncrypted);
    const [, a, , b] = chunks;
    assert.ok(a !== undefined && b !== undefined);
    swapChunks(store.path, a.digest, b.digest);
    const fault = { code: 'corrupt', message: /other data/ } as const;
    await checkReads(await openImage(store.path, isEncrypted), chunks, [a, b], fault);
  });
}

test('a chunk that was put back reads again', async () => {
  using store = temporaryDatastore();
  const [chunk] = writeImage(store.path, false);
  assert.ok(chunk !== undefined);
  damageChunk(store.path, chunk.digest, 'missing');
  const source = await openImage(store.path, false);
  await assert.rejects(source.read(0, 1), (error) => isPbsfsError(error, 'chunk-missing'));
  writeImage(store.path, false);
  assert.deepEqual(await readBytes(source, 0, chunkSize), data.subarray(0, chunkSize));
});
