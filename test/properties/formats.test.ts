/**
 * Properties of the decoders: on any bytes they give a value or throw our own error, nothing else; what is
 * encoded decodes to the same, also across the independent encoder.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { isPbsfsError } from '../../src/errors.ts';
import { findArchive, listArchives } from '../../src/formats/archive-name.ts';
import { type ChunkIndex, decodeIndex } from '../../src/formats/chunk-index.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import {
  blobKind,
  decodeBlob,
  encodeBlob,
  maxBlobSize,
  verifyBlobCrc,
} from '../../src/formats/data-blob.ts';
import { decodeDynamicIndex, encodeDynamicIndex } from '../../src/formats/dynamic-index.ts';
import { formatFingerprint, parseFingerprint } from '../../src/formats/fingerprint.ts';
import { decodeFixedIndex, encodeFixedIndex } from '../../src/formats/fixed-index.ts';
import { canonicalJson, parseJson } from '../../src/formats/json.ts';
import { parseKeyFile } from '../../src/formats/key-file.ts';
import { parseManifest, verifyManifest } from '../../src/formats/manifest.ts';
import {
  formatSnapshot,
  parseBackupTime,
  parseGroup,
  parseNamespace,
  parseSnapshot,
  type SnapshotId,
} from '../../src/formats/snapshot-path.ts';
import {
  encodeTestBlob,
  encodeTestDynamicIndex,
  encodeTestFixedIndex,
  encodeTestManifest,
  sha256,
  vectorKey,
} from '../support/encode-formats.ts';
import { expectedSnapshots, goldenStore, readGolden } from '../support/golden.ts';
import { needs } from '../support/requirements.ts';

const crypt = new CryptConfig(vectorKey);
const kinds = ['plain', 'zstd', 'encrypted', 'encrypted-zstd'] as const;

function attempt<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch (error) {
    if (isPbsfsError(error) && error.code !== 'bug') return undefined;
    throw error;
  }
}

async function attemptAsync<T>(action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (isPbsfsError(error) && error.code !== 'bug') return undefined;
    throw error;
  }
}

/** An index that was taken is consistent, whatever its bytes were. */
function assertConsistent(index: ChunkIndex): void {
  let position = 0;
  for (let i = 0; i < index.chunkCount; i++) {
    assert.equal(index.chunkStart(i), position);
    const end = index.chunkEnd(i);
    assert.ok(end > position);
    assert.equal(index.chunkAt(position), i);
    assert.equal(index.chunkAt(end - 1), i);
    assert.equal(index.digest(i).length, 32);
    position = end;
  }
  assert.equal(position, index.size);
}

/** Everything that takes bytes. */
async function decodeAll(bytes: Buffer): Promise<void> {
  attempt(() => blobKind(bytes));
  attempt(() => verifyBlobCrc(bytes));
  await attemptAsync(() => decodeBlob(bytes, { maxLength: 100_000 }));
  const data = await attemptAsync(() => decodeBlob(bytes, { maxLength: 5000, crypt }));
  if (data !== undefined) assert.ok(data.length <= 5000);
  for (const name of ['a.img.fidx', 'a.pxar.didx']) {
    const index = attempt(() => decodeIndex(name, bytes));
    if (index !== undefined) assertConsistent(index);
  }
  const manifest = attempt(() => parseManifest(bytes));
  if (manifest !== undefined) attempt(() => verifyManifest(manifest, crypt));
  attempt(() => parseKeyFile(bytes.toString()));
}

const digest = sha256(Buffer.from('digest'));
const content = Buffer.from('some content that packs well '.repeat(20));

const manifestText = encodeTestManifest({
  type: 'vm',
  id: '100',
  time: 1_700_000_000,
  files: [
    { filename: 'a.img.fidx', cryptMode: 'encrypt', size: 7, csum: digest.toString('hex') },
    { filename: 'a.conf.blob', cryptMode: 'none', size: 20, csum: digest.toString('hex') },
  ],
  unprotected: { notes: 'note', verify_state: { state: 'ok', upid: 'UPID' } },
  key: vectorKey,
});

const keyFileText = JSON.stringify({
  kdf: { Scrypt: { n: 65536, r: 8, p: 1, salt: digest.toString('base64') } },
  created: '2020-07-17T10:33:05+02:00',
  modified: '2020-07-17T10:33:05+02:00',
  data: Buffer.alloc(64).toString('base64'),
  hint: 'hint',
});

const samples: readonly Buffer[] = [
  ...kinds.map((kind) => encodeTestBlob(content, kind)),
  encodeTestFixedIndex(3 * 65536 + 1, 65536, [digest, digest, digest, digest]).bytes,
  encodeTestDynamicIndex([3, 7, 70_000].map((end) => ({ end, digest }))).bytes,
  Buffer.from(manifestText),
  Buffer.from(keyFileText),
];

type Mutation = readonly ['set' | 'insert' | 'cut', number, Uint8Array];

const mutation: fc.Arbitrary<Mutation> = fc.tuple(
  fc.constantFrom('set', 'insert', 'cut'),
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.uint8Array({ minLength: 1, maxLength: 9 }),
);

function mutate(bytes: Buffer, mutations: readonly Mutation[]): Buffer {
  let result = Buffer.from(bytes);
  for (const [kind, where, patch] of mutations) {
    const offset = Math.floor(where * result.length);
    if (kind === 'cut') {
      result = Buffer.concat([result.subarray(0, offset), result.subarray(offset + patch.length)]);
    } else {
      const rest = result.subarray(kind === 'set' ? offset + patch.length : offset);
      result = Buffer.concat([result.subarray(0, offset), patch, rest]);
    }
  }
  return result;
}

test('any bytes give a value or our own error', async () => {
  const anyBytes = fc.uint8Array({ maxLength: 5000 }).map((bytes) => Buffer.from(bytes));
  await fc.assert(fc.asyncProperty(anyBytes, decodeAll), { numRuns: 300 });
});

test('any bytes behind a right start give a value or our own error', async () => {
  const started = fc
    .tuple(fc.constantFrom(...samples), fc.nat(4200), fc.uint8Array({ maxLength: 200 }))
    .map(([sample, length, bytes]) => Buffer.concat([sample.subarray(0, length), bytes]));
  await fc.assert(fc.asyncProperty(started, decodeAll), { numRuns: 500 });
});

test('changed bytes give a value or our own error', async () => {
  const changed = fc
    .tuple(fc.constantFrom(...samples), fc.array(mutation, { minLength: 1, maxLength: 4 }))
    .map(([sample, mutations]) => mutate(sample, mutations));
  await fc.assert(fc.asyncProperty(changed, decodeAll), { numRuns: 3000 });
});

test('changed golden files give a value or our own error', { skip: needs('golden') }, async () => {
  const files: Buffer[] = expectedSnapshots().flatMap(({ dir, archives }) =>
    Object.keys(archives).map((name) => readFileSync(`${goldenStore}/${dir}/${name}`)),
  );
  files.push(...['none', 'scrypt', 'pbkdf2'].map((name) => readGolden(`keys/${name}.json`)));
  const changed = fc
    .tuple(fc.constantFrom(...files), fc.array(mutation, { minLength: 1, maxLength: 3 }))
    .map(([file, mutations]) => mutate(file, mutations));
  await fc.assert(fc.asyncProperty(changed, decodeAll), { numRuns: 3000 });
});

test('a changed byte behind the magic never gives other content', async () => {
  const change = fc.tuple(
    fc.constantFrom(...kinds),
    fc.nat(10_000),
    fc.integer({ min: 1, max: 255 }),
  );
  await fc.assert(
    fc.asyncProperty(change, async ([kind, where, bits]) => {
      const raw = encodeTestBlob(content, kind);
      const offset = 8 + (where % (raw.length - 8));
      raw.writeUInt8(raw.readUInt8(offset) ^ bits, offset);
      const isSealed = offset >= 12 && kind.startsWith('encrypted');
      await assert.rejects(decodeBlob(raw, { maxLength: maxBlobSize, crypt, crc: true }));
      if (isSealed) await assert.rejects(decodeBlob(raw, { maxLength: maxBlobSize, crypt }));
    }),
    { numRuns: 400 },
  );
});

const data = fc.oneof(
  fc.uint8Array({ maxLength: 3000 }),
  fc
    .tuple(fc.uint8Array({ maxLength: 9 }), fc.nat(20_000))
    .map(([pattern, length]) =>
      pattern.length === 0 ? pattern : new Uint8Array(Buffer.alloc(length, pattern)),
    ),
);

test('what is encoded decodes to the same, and is never longer than the plain form', async () => {
  await fc.assert(
    fc.asyncProperty(data, fc.boolean(), fc.boolean(), async (bytes, compress, encrypt) => {
      const raw = encodeBlob(bytes, { compress, crypt: encrypt ? crypt : undefined });
      assert.ok(raw.length <= bytes.length + (encrypt ? 44 : 12));
      const decoded = await decodeBlob(raw, { maxLength: bytes.length, crypt, crc: true });
      assert.deepEqual(decoded, Buffer.from(bytes));
    }),
    { numRuns: 300 },
  );
});

test('blobs of the independent encoder decode, and have the same bytes where nothing is packed', async () => {
  await fc.assert(
    fc.asyncProperty(data, fc.constantFrom(...kinds), async (bytes, kind) => {
      const raw = encodeTestBlob(bytes, kind);
      const decoded = await decodeBlob(raw, { maxLength: maxBlobSize, crypt, crc: true });
      assert.deepEqual(decoded, Buffer.from(bytes));
      if (kind.endsWith('zstd')) return;
      const options = kind === 'encrypted' ? { crypt, iv: raw.subarray(12, 28) } : {};
      assert.deepEqual(encodeBlob(bytes, options), raw);
    }),
    { numRuns: 300 },
  );
});

const uuid = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex');
const ctime = 1_593_179_765;

test('fixed indexes agree with the independent encoder', () => {
  const shape = fc.tuple(
    fc.integer({ min: 0, max: 24 }),
    fc.nat(40),
    fc.double({ min: 0, max: 1, noNaN: true }),
  );
  fc.assert(
    fc.property(shape, ([power, whole, part]) => {
      const chunkSize = 2 ** power;
      const size = whole * chunkSize + Math.floor(part * (chunkSize - 1));
      const digests = Array.from({ length: Math.ceil(size / chunkSize) }, (_, i) =>
        sha256(Buffer.from([i])),
      );
      const expected = encodeTestFixedIndex(size, chunkSize, digests);
      assert.ok(encodeFixedIndex({ size, chunkSize, uuid, ctime, digests }).equals(expected.bytes));
      const index = decodeFixedIndex(expected.bytes);
      assert.equal(index.size, size);
      assert.deepEqual(index.csum, expected.csum);
      for (const [i, value] of digests.entries()) assert.deepEqual(index.digest(i), value);
      assertConsistent(index);
    }),
    { numRuns: 200 },
  );
});

test('dynamic indexes agree with the independent encoder, and find what a plain search finds', () => {
  const lengths = fc.array(fc.integer({ min: 1, max: 16 * 1024 * 1024 }), { maxLength: 60 });
  fc.assert(
    fc.property(
      lengths,
      fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      (all, part) => {
        let end = 0;
        const chunks = all.map((length) => {
          end += length;
          return { end, digest: sha256(Buffer.from([length & 255])) };
        });
        const expected = encodeTestDynamicIndex(chunks);
        assert.ok(encodeDynamicIndex({ uuid, ctime, chunks }).equals(expected.bytes));
        const index = decodeDynamicIndex(expected.bytes);
        assert.deepEqual(index.csum, expected.csum);
        assertConsistent(index);
        const offset = Math.floor(part * end);
        if (end > 0)
          assert.equal(
            index.chunkAt(offset),
            chunks.findIndex((chunk) => offset < chunk.end),
          );
      },
    ),
    { numRuns: 200 },
  );
});

const jsonWithoutNull = fc
  .jsonValue({ maxDepth: 5 })
  .filter((value) => !JSON.stringify(value).includes('null'));

test('the canonical form keeps the value, and is its own canonical form', () => {
  fc.assert(
    fc.property(jsonWithoutNull, (value) => {
      const text = JSON.stringify(value);
      const canonical = canonicalJson(parseJson(text, 'test'));
      assert.deepEqual(JSON.parse(canonical), JSON.parse(text));
      assert.equal(canonicalJson(parseJson(canonical, 'test')), canonical);
    }),
  );
});

test('the canonical form does not depend on the order of members or on white space', () => {
  const members = fc.uniqueArray(fc.tuple(fc.string({ unit: 'binary' }), fc.integer()), {
    selector: ([key]) => key,
  });
  fc.assert(
    fc.property(members, (entries) => {
      const text = (list: typeof entries): string =>
        `{ ${list.map(([key, value]) => `${JSON.stringify(key)} : ${value}`).join(' , ')} }`;
      const forms = [entries, entries.toReversed()].map((list) =>
        canonicalJson(parseJson(text(list), 'test')),
      );
      assert.equal(forms[0], forms[1]);
      const sorted = entries
        .map(([key, value]) => [Buffer.from(key), `${JSON.stringify(key)}:${value}`] as const)
        .sort(([a], [b]) => a.compare(b));
      assert.equal(forms[0], `{${sorted.map(([, member]) => member).join(',')}}`);
    }),
  );
});

test('fingerprints come back from their text', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
      assert.deepEqual(parseFingerprint(formatFingerprint(bytes)), Buffer.from(bytes));
    }),
  );
});

const safeId = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,12}$/);

test('snapshots come back from their path', () => {
  const snapshot: fc.Arbitrary<SnapshotId> = fc.record(
    {
      namespace: fc.array(safeId, { maxLength: 7 }),
      type: fc.constantFrom('ct', 'host', 'vm'),
      id: safeId,
      time: fc.integer({ min: 1, max: 253_402_300_799 }),
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(snapshot, (value) => {
      assert.deepEqual(parseSnapshot(formatSnapshot(value)), value);
    }),
  );
});

test('any text as a path gives a value that is written the same, or our own error', () => {
  const near = fc
    .array(fc.constantFrom('ns', 'a', 'vm', '100', '..', '', '2023-11-14T22:13:20Z', '/'), {
      maxLength: 8,
    })
    .map((parts) => parts.join('/'));
  fc.assert(
    fc.property(fc.oneof(fc.string(), near), (text) => {
      const snapshot = attempt(() => parseSnapshot(text));
      if (snapshot !== undefined) assert.equal(formatSnapshot(snapshot), text);
      attempt(() => parseGroup(text));
      attempt(() => parseNamespace(text));
      parseBackupTime(text);
      parseFingerprint(text);
    }),
    { numRuns: 2000 },
  );
});

test('every archive of any snapshot has a name of its own that finds it', () => {
  const extension = fc.constantFrom('.img', '.pxar', '.mpxar', '.ppxar', '.conf', '.x', '');
  const filename = fc
    .tuple(fc.constantFrom('a', 'b', 'a.b'), extension, fc.constantFrom('.fidx', '.didx', '.blob'))
    .map((parts) => parts.join(''));
  fc.assert(
    fc.property(fc.uniqueArray(filename), (filenames) => {
      const archives = listArchives(filenames);
      assert.equal(new Set(archives.map(({ name }) => name)).size, archives.length);
      for (const archive of archives) {
        assert.deepEqual(findArchive(archive.name, filenames), archive);
      }
      const covered = archives.flatMap((archive) =>
        archive.split ? [archive.metadata, archive.payload] : [archive.filename],
      );
      assert.deepEqual(covered.toSorted(), filenames.toSorted());
    }),
  );
});
