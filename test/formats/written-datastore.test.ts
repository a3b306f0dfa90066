/** What the test-only encoder writes is what the decoders read, and what it breaks is broken. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { decodeIndex } from '../../src/formats/chunk-index.ts';
import { CryptConfig, plainDigest } from '../../src/formats/crypt-config.ts';
import { blobKind, decodeBlob, maxBlobSize } from '../../src/formats/data-blob.ts';
import { parseManifest, verifyManifest } from '../../src/formats/manifest.ts';
import {
  type ChunkDamage,
  chunkPath,
  damageChunk,
  swapChunks,
  type TestSnapshot,
  temporaryDatastore,
  vectorKey,
  type WrittenSnapshot,
  writeSnapshot,
} from '../support/encode-datastore.ts';
import { expectError } from '../support/expect-error.ts';

const MiB = 1024 * 1024;
const image = Buffer.alloc(4 * MiB + 1000, 'image');
const archive = Buffer.alloc(200_000, 'archive');
const config = Buffer.from('cores: 2\n');

const snapshot: TestSnapshot = {
  group: 'ns/a/vm/100',
  time: 1_700_000_000,
  images: {
    'drive-scsi0.img': image,
    'small.img': { data: image, chunkSize: MiB },
    'empty.img': Buffer.alloc(0),
  },
  archives: { 'root.pxar': archive, 'cut.pxar': { data: archive, chunkSize: 65_537 } },
  blobs: { 'qemu-server.conf': config },
  notes: 'notes',
};

/** Reads everything back, with every check. */
async function readBack(
  store: string,
  written: WrittenSnapshot,
  crypt: CryptConfig | undefined,
): Promise<Map<string, Buffer>> {
  const read = (name: string): Buffer => readFileSync(`${written.directory}/${name}`);
  const json = await decodeBlob(read('index.json.blob'), { maxLength: maxBlobSize, crc: true });
  const manifest = parseManifest(json);
  if (crypt !== undefined) verifyManifest(manifest, crypt, { requireSignature: true });
  const contents = new Map<string, Buffer>();
  for (const { filename, csum, size, cryptMode } of manifest.files) {
    const raw = read(filename);
    const key = cryptMode === 'encrypt' ? crypt : undefined;
    if (filename.endsWith('.blob')) {
      assert.deepEqual(await plainDigest(raw), csum);
      contents.set(filename, await decodeBlob(raw, { maxLength: size, crypt: key, crc: true }));
      continue;
    }
    const index = decodeIndex(filename, raw);
    assert.deepEqual(index.csum, csum);
    assert.equal(index.size, size);
    const pieces: Buffer[] = [];
    for (let i = 0; i < index.chunkCount; i++) {
      const chunk = readFileSync(chunkPath(store, index.digest(i).toString('hex')));
      const maxLength = index.chunkEnd(i) - index.chunkStart(i);
      const data = await decodeBlob(chunk, { maxLength, crypt: key, crc: true });
      assert.deepEqual(await (key?.digest(data) ?? plainDigest(data)), index.digest(i));
      pieces.push(data);
    }
    contents.set(filename, Buffer.concat(pieces));
  }
  return contents;
}

for (const [name, options] of [
  ['plain', {}],
  ['not compressed', { compress: false }],
  ['encrypted', { key: vectorKey }],
  ['encrypted, not compressed', { key: vectorKey, compress: false }],
  ['signed only', { key: vectorKey, cryptMode: 'sign-only' }],
] as const) {
  test(`a written snapshot reads back: ${name}`, async () => {
    using store = temporaryDatastore();
    const written = writeSnapshot(store.path, { ...snapshot, ...options });
    assert.equal(written.path, 'ns/a/vm/100/2023-11-14T22:13:20Z');
    const crypt = 'key' in options ? new CryptConfig(options.key) : undefined;
    const contents = await readBack(store.path, written, crypt);
    assert.deepEqual(Object.fromEntries(contents), {
      'drive-scsi0.img.fidx': image,
      'small.img.fidx': image,
      'empty.img.fidx': Buffer.alloc(0),
      'root.pxar.didx': archive,
      'cut.pxar.didx': archive,
      'qemu-server.conf.blob': config,
    });
    assert.deepEqual(
      written.chunks('small.img').map(({ start, end }) => [start, end]),
      [0, 1, 2, 3, 4].map((i) => [i * MiB, Math.min((i + 1) * MiB, image.length)]),
    );
  });
}

test('a padded last chunk is longer than its range', async () => {
  using store = temporaryDatastore();
  const written = writeSnapshot(store.path, { ...snapshot, padLastChunk: true });
  await assert.rejects(
    readBack(store.path, written, undefined),
    expectError('corrupt', /more than the expected 1000 bytes/),
  );
});

test('an unfinished snapshot has no manifest', () => {
  using store = temporaryDatastore();
  const { directory } = writeSnapshot(store.path, { ...snapshot, finished: false });
  assert.ok(!readdirSync(directory).includes('index.json.blob'));
  assert.ok(existsSync(`${store.path}/ns/a/vm/100/owner`));
});

const damages: Readonly<Record<ChunkDamage, (raw: Buffer | undefined) => void>> = {
  missing: (raw) => assert.equal(raw, undefined),
  empty: (raw) => assert.equal(raw?.length, 0),
  truncated: (raw) => assert.equal(blobKind(raw ?? Buffer.alloc(0)), 'plain'),
  'bit-flip': (raw) => assert.equal(raw?.length, 12 + 1000),
  'wrong-magic': (raw) =>
    assert.throws(() => blobKind(raw ?? Buffer.alloc(0)), expectError('corrupt', /magic/)),
};

test('each damage does what its name says, and reading finds it', async () => {
  for (const [damage, check] of Object.entries(damages)) {
    using store = temporaryDatastore();
    const written = writeSnapshot(store.path, { ...snapshot, compress: false });
    const digest = written.chunks('drive-scsi0.img')[1]?.digest ?? '';
    damageChunk(store.path, digest, damage as ChunkDamage);
    const path = chunkPath(store.path, digest);
    check(existsSync(path) ? readFileSync(path) : undefined);
    await assert.rejects(readBack(store.path, written, undefined));
  }
});

test('swapped chunks have right CRCs and wrong digests', async () => {
  using store = temporaryDatastore();
  const written = writeSnapshot(store.path, snapshot);
  const [a, b] = written.chunks('small.img').map(({ digest }) => digest);
  assert.ok(a !== undefined && b !== undefined && a !== b);
  swapChunks(store.path, a, b);
  await assert.rejects(readBack(store.path, written, undefined), /deep/);
});

test('a store is gone after its use', () => {
  const store = temporaryDatastore();
  assert.ok(existsSync(`${store.path}/.chunks`));
  store[Symbol.dispose]();
  assert.ok(!existsSync(store.path));
});
