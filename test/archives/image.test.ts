/** A single image opened by the library, against the golden images. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { openImage } from '../../src/archives/image.ts';
import { KeyRing } from '../../src/archives/key-ring.ts';
import { SnapshotArchives } from '../../src/archives/snapshot-archives.ts';
import { SeekableChunkReader } from '../../src/chunks/seekable-chunk-reader.ts';
import { isPbsfsError } from '../../src/errors.ts';
import type { SnapshotId } from '../../src/formats/snapshot-path.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import { expectedSnapshots, goldenStore } from '../support/golden.ts';
import { goldenKey } from '../support/golden-keys.ts';
import { needs } from '../support/requirements.ts';

const image = 'drive-scsi0.img.fidx';
const id: SnapshotId = { namespace: [], type: 'vm', id: '200', time: 1_700_086_400 };

test('an encrypted golden image streams whole with a cache of one chunk', {
  skip: needs('golden'),
}, async () => {
  const expected = expectedSnapshots().find(({ dir }) => dir === 'vm/200/2023-11-15T22:13:20Z');
  await using repository = await openDatastore(goldenStore);
  const keys = new KeyRing([await goldenKey('scrypt')]);
  await using archives = await SnapshotArchives.open(repository, id, keys);
  const reader = await openImage(archives, image, { cacheChunks: 1, concurrency: 1 });
  const hash = createHash('sha256');
  for await (const slice of new SeekableChunkReader(reader)) hash.update(slice);
  assert.equal(hash.digest('hex'), expected?.archives[image]?.sha256);
});

test('a locked image fails when it is opened, and bad options are refused', {
  skip: needs('golden'),
}, async () => {
  await using repository = await openDatastore(goldenStore);
  await using archives = await SnapshotArchives.open(repository, id, new KeyRing());
  await assert.rejects(
    () => openImage(archives, image),
    (error) => isPbsfsError(error, 'key-missing'),
  );
  for (const options of [{ cacheChunks: 0 }, { concurrency: 0 }, { cacheChunks: 1.5 }]) {
    await assert.rejects(
      () => openImage(archives, image, options),
      (error) => isPbsfsError(error, 'usage'),
    );
  }
});
