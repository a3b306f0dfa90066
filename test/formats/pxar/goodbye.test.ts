import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeGoodbyeTail, GoodbyeTable } from '../../../src/formats/pxar/goodbye.ts';
import type { Hash64 } from '../../../src/formats/pxar/sip-hash.ts';
import {
  encodePxar,
  type PxarNode,
  referenceSipHash,
  searchTreeOrder,
} from '../../support/encode-pxar.ts';
import { expectError } from '../../support/expect-error.ts';
import { readGolden } from '../../support/golden.ts';
import { needs } from '../../support/requirements.ts';

const membersStart = 56;

function hashOf(name: string): Hash64 {
  const hash = referenceSipHash(Buffer.from(name));
  return { high: Number(hash >> 32n), low: Number(hash & 0xffffffffn) };
}

/** A directory of empty files: the bytes of its table, and where its members are. */
function directory(names: readonly string[]) {
  const children = names.map(
    (name): PxarNode => ({ type: 'file', name: Buffer.from(name), content: Buffer.alloc(0) }),
  );
  const root: PxarNode = { type: 'directory', name: Buffer.alloc(0), children };
  const { metadata, places } = encodePxar(root, { version: 1 });
  const position = places.get('')?.table ?? 0;
  const positionOf = (name: string): number => places.get(name)?.position ?? -1;
  return { bytes: Buffer.from(metadata.subarray(position)), position, positionOf };
}

function setRow(bytes: Buffer, row: number, value: { hash?: Hash64; distance?: bigint }): void {
  const at = 16 + 24 * row;
  if (value.hash !== undefined) {
    bytes.writeUInt32LE(value.hash.low, at);
    bytes.writeUInt32LE(value.hash.high, at + 4);
  }
  if (value.distance !== undefined) bytes.writeBigUInt64LE(value.distance, at + 8);
}

test('every name of a directory is found by its hash, and no other', () => {
  for (const count of [0, 1, 2, 3, 5, 10, 17, 500]) {
    const names = Array.from({ length: count }, (_, i) => `name-${i}`);
    const { bytes, position, positionOf } = directory(names);
    const table = new GoodbyeTable(bytes, position, membersStart);
    assert.equal(table.length, count);
    assert.ok(table.isOrdered);
    for (const name of names) assert.deepEqual(table.find(hashOf(name)), [positionOf(name)]);
    assert.deepEqual(table.find(hashOf('absent')), []);
  }
});

test('positions are in the order of the archive, and tell where each member ends', () => {
  const names = ['c', 'a', 'b'];
  const { bytes, position, positionOf } = directory(names);
  const table = new GoodbyeTable(bytes, position, membersStart);
  assert.deepEqual([...table.positions], names.map(positionOf));
  assert.equal(table.memberEnd(positionOf('c')), positionOf('a'));
  assert.equal(table.memberEnd(positionOf('b')), position);
});

test('all members with one hash are found, wherever in the tree they are', () => {
  const names = ['1', '2', '3', '4', '5', '6', '7'];
  for (let first = 0; first < 7; first++) {
    for (let last = first; last < 7; last++) {
      const { bytes, position } = directory(names);
      // In search order, rows first…last get the hash of row `last`.
      const rows = searchTreeOrder(7).map((sorted, row) => ({ sorted, row }));
      const same = rows.find(({ sorted }) => sorted === last)?.row ?? 0;
      const shared = {
        low: bytes.readUInt32LE(16 + 24 * same),
        high: bytes.readUInt32LE(16 + 24 * same + 4),
      };
      const chosen = rows.filter(({ sorted }) => sorted >= first && sorted <= last);
      for (const { row } of chosen) setRow(bytes, row, { hash: shared });
      const table = new GoodbyeTable(bytes, position, membersStart);
      assert.ok(table.isOrdered);
      assert.equal(table.find(shared).length, last - first + 1);
    }
  }
});

test('a table out of search order still finds every name', () => {
  const names = Array.from({ length: 20 }, (_, i) => `name-${i}`);
  const { bytes, position, positionOf } = directory(names);
  const rows = bytes.subarray(16, -24);
  const reversed = Buffer.concat(
    names.map((_, i) => rows.subarray(rows.length - 24 * (i + 1), rows.length - 24 * i)),
  );
  reversed.copy(rows);
  const table = new GoodbyeTable(bytes, position, membersStart);
  assert.equal(table.isOrdered, false);
  for (const name of names) assert.deepEqual(table.find(hashOf(name)), [positionOf(name)]);
});

test('rows that point out of the directory, or twice at one member, are corrupt', () => {
  for (const distance of [0n, 10_000n, 2n ** 53n, 2n ** 64n - 1n, 'twice' as const]) {
    const { bytes, position } = directory(['a', 'b', 'c']);
    const other = bytes.readBigUInt64LE(16 + 24 + 8);
    setRow(bytes, 0, { distance: distance === 'twice' ? other : distance });
    assert.throws(
      () => new GoodbyeTable(bytes, position, membersStart),
      expectError('corrupt'),
      `${distance}`,
    );
  }
});

test('a table that is no GOODBYE item of that size is corrupt', () => {
  const { bytes, position } = directory(['a']);
  const otherType = Buffer.from(bytes);
  otherType[0] = 0;
  const otherSize = Buffer.from(bytes);
  otherSize[8] = 40;
  for (const wrong of [otherType, otherSize]) {
    assert.throws(() => new GoodbyeTable(wrong, position, membersStart), expectError('corrupt'));
  }
});

test('a tail tells the size of its table, and only one that a table can have', () => {
  const { bytes } = directory(['a', 'b']);
  const tailAt = bytes.length - 24;
  assert.equal(decodeGoodbyeTail(bytes, tailAt), bytes.length);
  for (const size of [0n, 16n, 39n, 41n, 16n + 24n * 2n ** 23n, 2n ** 63n]) {
    const wrong = Buffer.from(bytes);
    wrong.writeBigUInt64LE(size, tailAt + 16);
    assert.throws(() => decodeGoodbyeTail(wrong, tailAt), expectError('corrupt'), `${size}`);
  }
  assert.throws(() => decodeGoodbyeTail(bytes, 16), expectError('corrupt', /does not end/));
});

test('rows are laid out as the original lays them out', { skip: needs('golden') }, () => {
  const { bst_permutation } = JSON.parse(readGolden('v2/vectors.json').toString()) as {
    bst_permutation: Record<string, number[]>;
  };
  // The witness for the tests above, which build their tables with it.
  for (const [count, order] of Object.entries(bst_permutation)) {
    assert.deepEqual(searchTreeOrder(Number(count)), order);
  }
});
