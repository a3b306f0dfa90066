/** What an opened snapshot accepts and refuses, on datastores that are broken on purpose. */
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { zstdDecompressSync } from 'node:zlib';
import { KeyRing } from '../../src/archives/key-ring.ts';
import { SnapshotArchives } from '../../src/archives/snapshot-archives.ts';
import { type ErrorCode, isPbsfsError, type PbsfsError } from '../../src/errors.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import type { SnapshotId } from '../../src/formats/snapshot-path.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import {
  encodeTestBlob,
  type TestSnapshot,
  temporaryDatastore,
  type WrittenSnapshot,
  writeSnapshot,
} from '../support/encode-datastore.ts';

const key = Buffer.alloc(32, 7);
const otherKey = Buffer.alloc(32, 8);
const id: SnapshotId = { namespace: [], type: 'vm', id: '100', time: 1_700_000_000 };
const conf = Buffer.from('cores: 2\nmemory: 4096\n'.repeat(20));

interface Scene extends AsyncDisposable {
  readonly written: WrittenSnapshot;
  open(...keys: Buffer[]): Promise<SnapshotArchives>;
}

function scene(extra: Partial<TestSnapshot> = {}): Scene {
  const store = temporaryDatastore();
  const written = writeSnapshot(store.path, {
    group: 'vm/100',
    time: id.time,
    images: { 'drive-scsi0.img': Buffer.from('disk') },
    blobs: { 'qemu-server.conf': conf },
    ...extra,
  });
  return {
    written,
    open: async (...keys) =>
      SnapshotArchives.open(
        await openDatastore(store.path),
        id,
        new KeyRing(keys.map((bytes) => new CryptConfig(bytes))),
      ),
    [Symbol.asyncDispose]: async () => store[Symbol.dispose](),
  };
}

/** Writes the manifest anew with its signature kept. */
function changeManifest(directory: string, change: (text: string) => string): void {
  const path = `${directory}/index.json.blob`;
  const raw = readFileSync(path);
  const isPlain = encodeTestBlob(Buffer.alloc(0)).subarray(0, 8).equals(raw.subarray(0, 8));
  const payload = raw.subarray(12);
  const before = (isPlain ? payload : zstdDecompressSync(payload)).toString();
  const after = change(before);
  assert.notEqual(after, before);
  writeFileSync(path, encodeTestBlob(Buffer.from(after)));
}

/** Runs and returns the error, which must have that code. */
async function failure(code: ErrorCode, action: () => unknown): Promise<PbsfsError> {
  try {
    await action();
  } catch (error) {
    assert.ok(isPbsfsError(error, code), `expected ${code}, got ${error}`);
    return error;
  }
  throw new assert.AssertionError({ message: `expected ${code}, nothing was thrown` });
}

test('a plain snapshot opens, and its blob and index are what was written', async () => {
  await using plain = scene();
  const archives = await plain.open();
  assert.deepEqual(await archives.readBlob('qemu-server.conf.blob'), conf);
  const { index, cryptMode } = await archives.openIndex('drive-scsi0.img.fidx');
  assert.equal(index.size, 4);
  assert.equal(cryptMode, 'none');
  assert.equal(archives.cryptFor(cryptMode), undefined);
});

test('no key, a wrong key and a changed manifest are three different messages', async () => {
  await using encrypted = scene({ key });
  const right = await encrypted.open(otherKey, key);
  assert.deepEqual(await right.readBlob('qemu-server.conf.blob'), conf);

  const none = await encrypted.open();
  const missing = await failure('key-missing', () => none.readBlob('qemu-server.conf.blob'));
  const wrong = await encrypted.open(otherKey);
  const rejected = await failure('key-wrong', () => wrong.readBlob('qemu-server.conf.blob'));
  for (const error of [missing, rejected]) {
    assert.equal(error.context.snapshot, 'vm/100/2023-11-14T22:13:20Z');
    assert.equal(error.context.archive, 'qemu-server.conf.blob');
  }
  changeManifest(encrypted.written.directory, (text) => text.replace('"size": 4', '"size": 5'));
  const changed = await failure('corrupt', () => encrypted.open(key));
  const texts = new Set([missing.message, rejected.message, changed.message]);
  assert.equal(texts.size, 3);
  assert.equal(changed.context.archive, 'index.json.blob');
});

test('an index can be opened without the key, its data cannot be decrypted', async () => {
  await using encrypted = scene({ key });
  const archives = await encrypted.open();
  const { cryptMode, index } = await archives.openIndex('drive-scsi0.img.fidx');
  assert.equal(index.size, 4);
  await failure('key-missing', () => archives.cryptFor(cryptMode));
});

test('a blob, an index or a manifest that was changed fails by name', async () => {
  await using changed = scene();
  const { directory } = changed.written;
  const flip = (name: string): void => {
    const bytes = readFileSync(`${directory}/${name}`);
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    writeFileSync(`${directory}/${name}`, bytes);
  };
  flip('qemu-server.conf.blob');
  flip('drive-scsi0.img.fidx');
  const archives = await changed.open();
  const blob = await failure('corrupt', () => archives.readBlob('qemu-server.conf.blob'));
  assert.equal(blob.context.archive, 'qemu-server.conf.blob');
  const index = await failure('corrupt', () => archives.openIndex('drive-scsi0.img.fidx'));
  assert.equal(index.context.archive, 'drive-scsi0.img.fidx');
  flip('index.json.blob');
  const manifest = await failure('corrupt', () => changed.open());
  assert.equal(manifest.context.archive, 'index.json.blob');
});

test('an intact index of another archive is not taken for the listed one', async () => {
  await using swapped = scene({
    images: { 'a.img': Buffer.from('one'), 'b.img': Buffer.from('two') },
  });
  const { directory } = swapped.written;
  copyFileSync(`${directory}/a.img.fidx`, `${directory}/b.img.fidx`);
  const archives = await swapped.open();
  const error = await failure('corrupt', () => archives.openIndex('b.img.fidx'));
  assert.match(error.message, /manifest says/);
});

test('a file that the manifest does not list is not read', async () => {
  await using beside = scene();
  const { directory } = beside.written;
  copyFileSync(`${directory}/qemu-server.conf.blob`, `${directory}/foreign.conf.blob`);
  copyFileSync(`${directory}/qemu-server.conf.blob`, `${directory}/client.log.blob`);
  const archives = await beside.open();
  await failure('not-found', () => archives.readBlob('foreign.conf.blob'));
  assert.deepEqual(await archives.readBlob('client.log.blob'), conf);
});

test('what the manifest names and the snapshot does not have is damage', async () => {
  await using snapshot = scene();
  for (const name of ['qemu-server.conf.blob', 'drive-scsi0.img.fidx']) {
    rmSync(`${snapshot.written.directory}/${name}`);
  }
  await using archives = await snapshot.open();
  await failure('corrupt', () => archives.readBlob('qemu-server.conf.blob'));
  await failure('corrupt', () => archives.openIndex('drive-scsi0.img.fidx'));
  await failure('not-found', () => archives.readBlob('client.log.blob'));
});
