/** Every archive that the real client wrote, whole, through every layer up to a stream. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { CachedChunkReader } from '../../src/chunks/cached-chunk-reader.ts';
import { ChunkCache } from '../../src/chunks/chunk-cache.ts';
import { ChunkFetcher } from '../../src/chunks/chunk-fetcher.ts';
import { SeekableChunkReader } from '../../src/chunks/seekable-chunk-reader.ts';
import { decodeIndex } from '../../src/formats/chunk-index.ts';
import type { CryptMode } from '../../src/formats/manifest.ts';
import { parseNamespace } from '../../src/formats/snapshot-path.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import { Semaphore } from '../../src/semaphore.ts';
import { countingRepository } from '../support/counting-repository.ts';
import { type ExpectedSnapshot, expectedSnapshots, goldenStore } from '../support/golden.ts';
import { goldenKey, goldenKeyNames } from '../support/golden-keys.ts';
import { needs } from '../support/requirements.ts';

async function openExpected(expected: ExpectedSnapshot) {
  const counting = countingRepository(await openDatastore(goldenStore));
  const [type, id] = expected.group.split('/');
  assert.ok((type === 'ct' || type === 'host' || type === 'vm') && id !== undefined);
  const snapshot = {
    namespace: parseNamespace(expected.ns),
    type,
    id,
    time: Date.parse(expected.time_iso) / 1000,
  } as const;
  const { files } = await counting.repository.describeSnapshot(snapshot);
  const reader = await counting.repository.openSnapshot(snapshot);
  const keyName = goldenKeyNames.find((name) => name === expected.key);
  const crypt = keyName === undefined ? undefined : await goldenKey(keyName);
  const openArchive = async (filename: string): Promise<CachedChunkReader> => {
    const cryptMode: CryptMode | undefined = files.find((f) => f.filename === filename)?.cryptMode;
    assert.ok(cryptMode);
    return new CachedChunkReader({
      index: decodeIndex(filename, await reader.readFile(filename)),
      fetcher: new ChunkFetcher({ reader, cryptMode, crypt, limiter: new Semaphore(4) }),
      cache: new ChunkCache({ chunks: 1 }),
    });
  };
  return { counting, openArchive };
}

test('every archive streams as the real client restored it, with a cache of one chunk', {
  skip: needs('golden'),
}, async () => {
  let streamed = 0;
  for (const expected of expectedSnapshots()) {
    const { counting, openArchive } = await openExpected(expected);
    for (const [filename, archive] of Object.entries(expected.archives)) {
      if (archive.sha256 === undefined || archive.chunks === undefined) continue;
      const source = await openArchive(filename);
      counting.reset();
      const hash = createHash('sha256');
      let size = 0;
      for await (const bytes of new SeekableChunkReader(source).stream()) {
        hash.update(bytes);
        size += bytes.length;
      }
      const where = `${expected.dir}/${filename}`;
      assert.equal(size, archive.size, where);
      assert.equal(hash.digest('hex'), archive.sha256, where);
      // Zeros are never fetched, and nothing is fetched twice in a row.
      const fetched = archive.chunks.filter((chunk) => chunk.zero !== true).length;
      assert.ok(counting.count('readChunk') <= fetched, where);
      streamed++;
    }
  }
  assert.ok(streamed > 30);
});

test('holes are the chunks that are known to be zero', { skip: needs('golden') }, async () => {
  let zeroChunks = 0;
  for (const expected of expectedSnapshots()) {
    const { openArchive } = await openExpected(expected);
    for (const [filename, archive] of Object.entries(expected.archives)) {
      if (archive.kind !== 'fixed' || archive.chunks === undefined) continue;
      const source = await openArchive(filename);
      let start = 0;
      let dataSize = 0;
      for (const { len = 0, zero = false } of archive.chunks) {
        assert.equal(
          source.nextData(start) === start,
          !zero,
          `${expected.dir}/${filename} ${start}`,
        );
        assert.equal(
          source.nextHole(start) === start,
          zero,
          `${expected.dir}/${filename} ${start}`,
        );
        if (zero) zeroChunks++;
        else dataSize += len;
        start += len;
      }
      assert.equal(source.dataSize, dataSize);
    }
  }
  assert.ok(zeroChunks > 10);
});
