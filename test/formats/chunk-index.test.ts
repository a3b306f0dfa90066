/** Fixed and dynamic indexes: the published examples, the independent encoder, and every refusal. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { type ChunkIndex, decodeIndex } from '../../src/formats/chunk-index.ts';
import { decodeDynamicIndex, encodeDynamicIndex } from '../../src/formats/dynamic-index.ts';
import { decodeFixedIndex, encodeFixedIndex } from '../../src/formats/fixed-index.ts';
import { encodeTestDynamicIndex, encodeTestFixedIndex, sha256 } from '../support/encode-formats.ts';
import { expectError } from '../support/expect-error.ts';

const MiB = 1024 * 1024;
const [a, b] = [sha256(Buffer.from('a')), sha256(Buffer.from('b'))];
const uuid = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex');
const ctime = 1_593_179_765;

/** The example of the format description: 4 MiB + 1000 bytes, digests of `a` and `b`. */
const fixedHeader = Buffer.from(
  `2f7f41ed91fd0fcd000102030405060708090a0b0c0d0e0f75fef55e00000000
   e5a01fee14e0ed5c48714f22180f25ad8365b53f9779f79dc4a3d7e93963f94a
   e8034000000000000000400000000000`.replace(/\s/g, ''),
  'hex',
);
const fixedExample = Buffer.concat([fixedHeader, Buffer.alloc(4096 - 80), a, b]);

test('the published fixed index decodes', () => {
  const index = decodeFixedIndex(fixedExample);
  assert.equal(index.size, 4 * MiB + 1000);
  assert.equal(index.chunkSize, 4 * MiB);
  assert.equal(index.chunkCount, 2);
  assert.equal(index.ctime, ctime);
  assert.deepEqual(index.uuid, uuid);
  assert.deepEqual(index.csum, fixedHeader.subarray(32, 64));
  assert.deepEqual([index.digest(0), index.digest(1)], [a, b]);
  assert.deepEqual([index.chunkStart(0), index.chunkEnd(0)], [0, 4 * MiB]);
  assert.deepEqual([index.chunkStart(1), index.chunkEnd(1)], [4 * MiB, 4 * MiB + 1000]);
  assert.deepEqual(
    [0, 4 * MiB - 1, 4 * MiB, 4 * MiB + 999].map((o) => index.chunkAt(o)),
    [0, 0, 1, 1],
  );
});

test('the published fixed index is what is encoded', () => {
  const content = { size: 4 * MiB + 1000, chunkSize: 4 * MiB, uuid, ctime, digests: [a, b] };
  assert.deepEqual(encodeFixedIndex(content), fixedExample);
});

test('the published dynamic index decodes, and is what is encoded', () => {
  const chunks = [
    { end: 3, digest: a },
    { end: 5, digest: b },
  ];
  const bytes = encodeDynamicIndex({ uuid, ctime, chunks });
  assert.deepEqual(bytes, encodeTestDynamicIndex(chunks).bytes);
  const index = decodeDynamicIndex(bytes);
  const csum = 'de80a7eb2e40b68843809d0940c4169fcd45ab59b5b3d714cc2a8ebbd3cfb036';
  assert.equal(index.csum.toString('hex'), csum);
  assert.equal(bytes.toString('hex', 32, 64), csum);
  assert.equal(index.size, 5);
  assert.equal(index.ctime, ctime);
  assert.deepEqual([index.chunkStart(0), index.chunkEnd(0)], [0, 3]);
  assert.deepEqual([index.chunkStart(1), index.chunkEnd(1)], [3, 5]);
  assert.deepEqual(
    [0, 2, 3, 4].map((offset) => index.chunkAt(offset)),
    [0, 0, 1, 1],
  );
  assert.deepEqual([index.digest(0), index.digest(1)], [a, b]);
});

test('the checksum is computed, whatever the header says', () => {
  const bytes = Buffer.from(fixedExample);
  bytes.fill(0xee, 32, 64);
  assert.deepEqual(decodeFixedIndex(bytes).csum, fixedHeader.subarray(32, 64));
});

test('bytes of the header that have no meaning are ignored', () => {
  const bytes = Buffer.from(fixedExample);
  bytes.fill(0xee, 80, 4096);
  assert.equal(decodeFixedIndex(bytes).size, 4 * MiB + 1000);
});

test('a digest is a view of the index, and is compared in place', () => {
  const index = decodeFixedIndex(fixedExample);
  assert.equal(index.digest(1).buffer, fixedExample.buffer);
  assert.ok(index.hasDigest(1, b));
  assert.ok(!index.hasDigest(1, a));
  assert.ok(!index.hasDigest(0, b));
});

test('chunk sizes from 64 KiB to 16 MiB are taken', () => {
  for (const chunkSize of [1, 4096, 65536, MiB, 16 * MiB]) {
    const { bytes } = encodeTestFixedIndex(chunkSize + 1, chunkSize, [a, b]);
    const index = decodeFixedIndex(bytes);
    assert.equal(index.chunkAt(chunkSize), 1);
    assert.equal(index.chunkEnd(1), chunkSize + 1);
  }
});

test('an index without chunks is an empty archive', () => {
  const fixed = decodeIndex('a.img.fidx', encodeTestFixedIndex(0, 4 * MiB, []).bytes);
  const dynamic = decodeIndex('a.pxar.didx', encodeTestDynamicIndex([]).bytes);
  for (const index of [fixed, dynamic]) {
    assert.equal(index.size, 0);
    assert.equal(index.chunkCount, 0);
    assert.deepEqual(index.csum, sha256());
    assert.throws(() => index.chunkAt(0), expectError('bug'));
    assert.throws(() => index.digest(0), expectError('bug'));
  }
});

test('what lies outside is a bug of the caller', () => {
  const fixed = decodeFixedIndex(fixedExample);
  const dynamic = decodeDynamicIndex(encodeTestDynamicIndex([{ end: 3, digest: a }]).bytes);
  for (const index of [fixed, dynamic] as readonly ChunkIndex[]) {
    for (const i of [-1, 0.5, Number.NaN, index.chunkCount]) {
      assert.throws(() => index.chunkStart(i), expectError('bug'));
      assert.throws(() => index.chunkEnd(i), expectError('bug'));
      assert.throws(() => index.digest(i), expectError('bug'));
      assert.throws(() => index.hasDigest(i, a), expectError('bug'));
    }
    for (const offset of [-1, 0.5, Number.NaN, index.size]) {
      assert.throws(() => index.chunkAt(offset), expectError('bug'));
    }
  }
});

test('the name decides which kind is expected', () => {
  const { bytes: dynamic } = encodeTestDynamicIndex([{ end: 3, digest: a }]);
  assert.equal(decodeIndex('drive-scsi0.img.fidx', fixedExample).kind, 'fixed');
  assert.equal(decodeIndex('root.pxar.didx', dynamic).kind, 'dynamic');
  assert.throws(() => decodeIndex('root.pxar.didx', fixedExample), expectError('corrupt', /magic/));
  assert.throws(() => decodeIndex('a.img.fidx', dynamic), expectError('corrupt', /magic/));
  assert.throws(() => decodeIndex('a.conf.blob', dynamic), expectError('usage'));
});

/** The fixed example with other numbers in its header. */
function fixedWith(size: bigint, chunkSize: bigint): Buffer {
  const bytes = Buffer.from(fixedExample);
  bytes.writeBigUInt64LE(size, 64);
  bytes.writeBigUInt64LE(chunkSize, 72);
  return bytes;
}

const brokenFixed: readonly (readonly [string, Uint8Array, RegExp])[] = [
  ['nothing', Buffer.alloc(0), /0 bytes/],
  ['24 bytes of junk', Buffer.alloc(24, 1), /24 bytes/],
  ['half a header', fixedExample.subarray(0, 4095), /4095 bytes/],
  ['zeros', Buffer.alloc(4096), /magic 0000000000000000/],
  ['a cut digest', fixedExample.subarray(0, -1), /31 bytes of an entry/],
  ['a digest too few', fixedExample.subarray(0, -32), /1 chunks.* needs 2/],
  ['a digest too many', Buffer.concat([fixedExample, a]), /3 chunks.* needs 2/],
  ['a byte too many', Buffer.concat([fixedExample, Buffer.alloc(1)]), /1 bytes of an entry/],
  ['chunk size 0', fixedWith(8n, 0n), /chunk size 0/],
  ['chunk size 3', fixedWith(6n, 3n), /chunk size 3/],
  ['chunk size 32 MiB', fixedWith(64n << 20n, 32n << 20n), /chunk size 33554432/],
  ['chunk size 2^32', fixedWith(2n << 32n, 1n << 32n), /chunk size 4294967296/],
  ['chunk size 2^63', fixedWith(8n, 1n << 63n), /chunk size is 9223372036854775808/],
  ['size 2^53', fixedWith(1n << 53n, 4n << 20n), /image size is 9007199254740992/],
  ['size 2^64-1', fixedWith((1n << 64n) - 1n, 4n << 20n), /image size is 18446744073709551615/],
  ['size 2^53-1', fixedWith((1n << 53n) - 1n, 4n << 20n), /2 chunks.* needs 2147483648/],
];

for (const [name, bytes, message] of brokenFixed) {
  test(`a fixed index is corrupt: ${name}`, () => {
    assert.throws(() => decodeFixedIndex(bytes), expectError('corrupt', message));
  });
}

function dynamicWith(...ends: readonly number[]): Buffer {
  return encodeTestDynamicIndex(ends.map((end) => ({ end, digest: a }))).bytes;
}

const hugeEnd = dynamicWith(3);
hugeEnd.writeBigUInt64LE(1n << 53n, 4096);

const brokenDynamic: readonly (readonly [string, Uint8Array, RegExp])[] = [
  ['nothing', Buffer.alloc(0), /0 bytes/],
  ['24 bytes of junk', Buffer.alloc(24, 1), /24 bytes/],
  ['half a header', dynamicWith(3).subarray(0, 4000), /4000 bytes/],
  ['zeros', Buffer.alloc(4136), /magic 0000000000000000/],
  ['a cut entry', dynamicWith(3, 5).subarray(0, -1), /39 bytes of an entry/],
  ['a first chunk of no bytes', dynamicWith(0), /chunk 0 covers 0…0/],
  ['a chunk of no bytes', dynamicWith(3, 3), /chunk 1 covers 3…3/],
  ['ends that fall', dynamicWith(5, 9, 3), /chunk 2 covers 9…3/],
  ['a chunk of more than 16 MiB', dynamicWith(1, 16 * MiB + 2), /chunk 1 covers 1…16777218/],
  ['an end of 2^53', hugeEnd, /chunk end is 9007199254740992/],
];

for (const [name, bytes, message] of brokenDynamic) {
  test(`a dynamic index is corrupt: ${name}`, () => {
    assert.throws(() => decodeDynamicIndex(bytes), expectError('corrupt', message));
  });
}

test('a chunk of exactly 16 MiB is taken', () => {
  assert.equal(decodeDynamicIndex(dynamicWith(1, 16 * MiB + 1)).size, 16 * MiB + 1);
});

test('a time before 1970 is kept', () => {
  const bytes = encodeDynamicIndex({ uuid, ctime: -5, chunks: [{ end: 3, digest: a }] });
  assert.equal(decodeDynamicIndex(bytes).ctime, -5);
});

/** A million entries: a fixed image of 4 TiB, or an archive of as many chunks. */
const many = 1_048_576;

function assertOpensFast(decode: () => ChunkIndex): void {
  const start = performance.now();
  const index = decode();
  const opened = performance.now() - start;
  assert.equal(index.chunkCount, many);
  const step = Math.floor(index.size / 100_000);
  let last = 0;
  for (let offset = 0; offset < index.size; offset += step) last = index.chunkAt(offset);
  const searched = performance.now() - start - opened;
  assert.ok(last > many - 100, `${last}`);
  assert.ok(opened < 1000, `opening took ${opened} ms`);
  assert.ok(searched < 1000, `100,000 searches took ${searched} ms`);
}

test('a fixed index of a million chunks opens at once', () => {
  const digests = Buffer.alloc(many * 32, randomBytes(32));
  const { bytes } = encodeTestFixedIndex(many * 4 * MiB, 4 * MiB, [digests]);
  assertOpensFast(() => decodeFixedIndex(bytes));
});

test('a dynamic index of a million chunks opens at once', () => {
  const bytes = Buffer.alloc(4096 + many * 40);
  dynamicWith(1).copy(bytes);
  for (let i = 0; i < many; i++) bytes.writeUIntLE((i + 1) * 3_333_333, 4096 + 40 * i, 6);
  assertOpensFast(() => decodeDynamicIndex(bytes));
});
