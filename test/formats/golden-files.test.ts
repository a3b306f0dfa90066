/** Every blob, index, manifest and chunk of the golden store against what the real client made of it. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { masterKeyBlobName } from '../../src/formats/archive-name.ts';
import { type ChunkIndex, decodeIndex } from '../../src/formats/chunk-index.ts';
import { type CryptConfig, plainDigest } from '../../src/formats/crypt-config.ts';
import {
  blobKind,
  decodeBlob,
  isEncryptedKind,
  maxBlobSize,
  maxChunkSize,
  verifyBlobCrc,
} from '../../src/formats/data-blob.ts';
import { encodeDynamicIndex } from '../../src/formats/dynamic-index.ts';
import { encodeFixedIndex, FixedIndex } from '../../src/formats/fixed-index.ts';
import { formatManifest, parseManifest, verifyManifest } from '../../src/formats/manifest.ts';
import { formatSnapshot, parseSnapshot } from '../../src/formats/snapshot-path.ts';
import {
  type ExpectedArchive,
  type ExpectedSnapshot,
  expectedSnapshots,
  goldenStore,
} from '../support/golden.ts';
import { goldenKey, goldenKeyNames } from '../support/golden-keys.ts';
import { needs } from '../support/requirements.ts';

const skip = needs('golden');
const snapshots = skip === false ? expectedSnapshots() : [];
const keys = new Map<string, CryptConfig>();

before(async () => {
  if (skip !== false) return;
  for (const name of goldenKeyNames) keys.set(name, await goldenKey(name));
});

function readFile(snapshot: ExpectedSnapshot, filename: string): Buffer {
  return readFileSync(`${goldenStore}/${snapshot.dir}/${filename}`);
}

function keyOf(snapshot: ExpectedSnapshot): CryptConfig | undefined {
  return snapshot.key === null ? undefined : keys.get(snapshot.key);
}

const magicOf = {
  plain: '42ab3807be8370a1',
  zstd: '31b958426fb6a37f',
  encrypted: '7b6785be222d4cf0',
  'encrypted-zstd': 'e6591bbf0bbfd80b',
} as const;

test('every stored blob has the expected kind, CRC and content', { skip }, async () => {
  let count = 0;
  for (const snapshot of snapshots) {
    for (const [filename, expected] of Object.entries(snapshot.archives)) {
      if (expected.kind !== 'blob') continue;
      const raw = readFile(snapshot, filename);
      assert.equal(magicOf[blobKind(raw)], expected.magic);
      assert.equal(raw.readUInt32LE(8), expected.crc);
      verifyBlobCrc(raw);
      const data = await decodeBlob(raw, { maxLength: maxBlobSize, crypt: keyOf(snapshot) });
      if (filename === 'client.log.blob') {
        assert.match(String(data), /^INFO: starting fixture backup\n/);
      } else if (filename !== masterKeyBlobName) {
        // That one is opened in master-key.test.ts.
        assert.equal(data.length, expected.decoded_size);
        assert.equal((await plainDigest(data)).toString('hex'), expected.decoded_sha256);
      }
      count++;
    }
  }
  assert.ok(count > 40, `${count} blobs`);
});

function isIndex(
  expected: ExpectedArchive,
): expected is ExpectedArchive & Pick<ChunkIndex, 'kind'> {
  return expected.kind === 'fixed' || expected.kind === 'dynamic';
}

function assertChunks(index: ChunkIndex, expected: ExpectedArchive): void {
  const chunks = expected.chunks ?? [];
  assert.equal(index.chunkCount, chunks.length);
  let start = 0;
  for (const [i, chunk] of chunks.entries()) {
    const end = chunk.end ?? start + (chunk.len ?? 0);
    assert.equal(index.digest(i).toString('hex'), chunk.digest);
    assert.ok(index.hasDigest(i, Buffer.from(chunk.digest, 'hex')));
    assert.equal(index.chunkStart(i), chunk.start ?? start);
    assert.equal(index.chunkEnd(i), end);
    assert.equal(index.chunkAt(start), i);
    assert.equal(index.chunkAt(end - 1), i);
    start = end;
  }
  assert.equal(start, index.size);
}

test('every stored index has the expected header, checksum and chunks', { skip }, () => {
  const counts = { fixed: 0, dynamic: 0 };
  for (const snapshot of snapshots) {
    for (const [filename, expected] of Object.entries(snapshot.archives)) {
      if (!isIndex(expected)) continue;
      const index = decodeIndex(filename, readFile(snapshot, filename));
      assert.equal(index.kind, expected.kind);
      assert.equal(index.csum.toString('hex'), expected.index_csum);
      assert.equal(index.uuid.toString('hex'), expected.uuid?.replaceAll('-', ''));
      assert.equal(index.ctime, expected.ctime);
      assert.equal(index.size, expected.size);
      assert.equal(index instanceof FixedIndex ? index.chunkSize : undefined, expected.chunk_size);
      assertChunks(index, expected);
      counts[expected.kind]++;
    }
  }
  assert.ok(counts.fixed > 10 && counts.dynamic > 20, JSON.stringify(counts));
});

function encodeAgain(index: ChunkIndex): Buffer {
  const { size, uuid, ctime } = index;
  const numbers = Array.from({ length: index.chunkCount }, (_, i) => i);
  const digests = numbers.map((i) => index.digest(i));
  if (index instanceof FixedIndex) {
    return encodeFixedIndex({ size, chunkSize: index.chunkSize, uuid, ctime, digests });
  }
  const chunks = numbers.map((i) => ({ end: index.chunkEnd(i), digest: index.digest(i) }));
  return encodeDynamicIndex({ uuid, ctime, chunks });
}

test('every stored index is encoded again byte for byte', { skip }, () => {
  for (const snapshot of snapshots) {
    for (const [filename, expected] of Object.entries(snapshot.archives)) {
      if (!isIndex(expected)) continue;
      const bytes = readFile(snapshot, filename);
      assert.ok(encodeAgain(decodeIndex(filename, bytes)).equals(bytes), filename);
    }
  }
});

test('every manifest names its snapshot, and fits the files that lie beside it', {
  skip,
}, async () => {
  for (const snapshot of snapshots) {
    const raw = readFile(snapshot, 'index.json.blob');
    const json = await decodeBlob(raw, { maxLength: maxBlobSize, crc: true });
    const manifest = parseManifest(json);
    const { namespace } = parseSnapshot(snapshot.dir);
    const { backupType: type, backupId: id, backupTime: time } = manifest;
    assert.equal(formatSnapshot({ namespace, type, id, time }), snapshot.dir);
    assert.equal(formatManifest(manifest), String(json));
    for (const file of manifest.files) {
      const expected = snapshot.archives[file.filename];
      assert.ok(expected);
      const isBlob = expected.kind === 'blob';
      assert.equal(file.size, isBlob ? expected.raw_size : expected.size);
      assert.equal(
        file.csum.toString('hex'),
        isBlob ? expected.raw_sha256 : expected.index_csum,
        file.filename,
      );
    }
  }
});

test('every signed manifest passes with its key, and with no other', { skip }, async () => {
  let signed = 0;
  for (const snapshot of snapshots) {
    const raw = readFile(snapshot, 'index.json.blob');
    const manifest = parseManifest(await decodeBlob(raw, { maxLength: maxBlobSize }));
    assert.equal(manifest.signature !== undefined, snapshot.key !== null);
    const crypt = keyOf(snapshot);
    if (crypt === undefined) continue;
    assert.deepEqual(manifest.unprotected.keyFingerprint, crypt.fingerprint);
    verifyManifest(manifest, crypt, { requireSignature: true });
    for (const other of keys.values()) {
      if (other !== crypt) assert.throws(() => verifyManifest(manifest, other), /key/);
    }
    signed++;
  }
  assert.equal(signed, 8);
});

/** Digest of each chunk in the store → the key it is encrypted with, undefined for plain ones. */
function chunkKeys(): Map<string, CryptConfig | undefined> {
  const result = new Map<string, CryptConfig | undefined>();
  for (const snapshot of snapshots) {
    for (const { chunks = [] } of Object.values(snapshot.archives)) {
      for (const { digest } of chunks) result.set(digest, keyOf(snapshot));
    }
  }
  return result;
}

test('every stored chunk decodes to bytes of its digest', { skip }, async () => {
  const owners = chunkKeys();
  let count = 0;
  for (const folder of readdirSync(`${goldenStore}/.chunks`)) {
    for (const digest of readdirSync(`${goldenStore}/.chunks/${folder}`)) {
      const raw = readFileSync(`${goldenStore}/.chunks/${folder}/${digest}`);
      const crypt = owners.get(digest);
      const data = await decodeBlob(raw, { maxLength: maxChunkSize, crypt, crc: true });
      const keyed = isEncryptedKind(blobKind(raw)) ? crypt : undefined;
      const computed = await (keyed === undefined ? plainDigest(data) : keyed.digest(data));
      assert.equal(computed.toString('hex'), digest);
      count++;
    }
  }
  assert.equal(count, 126);
});
