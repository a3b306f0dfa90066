import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CatalogReader } from '../../src/formats/catalog.ts';
import { catalogEntry, signedVarint, varint } from '../support/encode-catalog.ts';
import { expectError } from '../support/expect-error.ts';
import { readGolden } from '../support/golden.ts';
import { needs } from '../support/requirements.ts';

const name = Buffer.from('näme\xff', 'latin1');

test('numbers are read in groups of seven bits', () => {
  const unsigned = (hex: string) => new CatalogReader(Buffer.from(hex, 'hex')).unsigned('it');
  const signed = (hex: string) => new CatalogReader(Buffer.from(hex, 'hex')).signed('it');
  assert.deepEqual(['00', '7f', 'ac02', '808001'].map(unsigned), [0, 127, 300, 16384]);
  assert.deepEqual(
    ['00', '8100', '808100', '80e2cfaa06', '80fda99d8800'].map(signed),
    [0, -1, -128, 1_700_000_000, -2_208_988_800],
  );
});

test('numbers are those of the golden vectors, up to what is exact', {
  skip: needs('golden'),
}, () => {
  const { catalog_u64, catalog_i64 } = JSON.parse(readGolden('v2/vectors.json').toString()) as {
    catalog_u64: Record<string, string>;
    catalog_i64: Record<string, string>;
  };
  for (const [value, hex] of Object.entries(catalog_u64)) {
    const reader = new CatalogReader(Buffer.from(hex, 'hex'));
    if (Number.isSafeInteger(Number(value))) {
      assert.equal(reader.unsigned('it'), Number(value));
      assert.equal(reader.consumed, hex.length / 2);
    } else {
      assert.throws(() => reader.unsigned('it'), expectError('corrupt', /2\^53/));
    }
    assert.deepEqual(varint(BigInt(value)), Buffer.from(hex, 'hex'));
  }
  for (const [value, hex] of Object.entries(catalog_i64)) {
    const reader = new CatalogReader(Buffer.from(hex, 'hex'));
    if (Number.isSafeInteger(Number(value))) assert.equal(reader.signed('it'), Number(value));
    else assert.throws(() => reader.signed('it'), expectError('corrupt', /2\^53/));
    assert.deepEqual(signedVarint(BigInt(value)), Buffer.from(hex, 'hex'));
  }
});

test('numbers without an end are corrupt, however many bytes they have', () => {
  for (const bytes of [
    Buffer.from('80', 'hex'),
    Buffer.alloc(100, 0x80),
    Buffer.alloc(100, 0xff),
  ]) {
    assert.throws(() => new CatalogReader(bytes).unsigned('it'), expectError('corrupt'));
    assert.throws(() => new CatalogReader(bytes).signed('it'), expectError('corrupt'));
  }
});

test('entries of every type are read one behind the other', () => {
  const bytes = Buffer.concat([
    catalogEntry('d', name, varint(40)),
    catalogEntry('f', name, varint(5_000_000_000), signedVarint(-1)),
    ...['l', 'h', 'b', 'c', 'p', 's'].map((type) => catalogEntry(type, name)),
  ]);
  const reader = new CatalogReader(bytes);
  assert.deepEqual(reader.entry(100), { kind: 'directory', name, block: 60 });
  assert.deepEqual(reader.entry(100), { kind: 'file', name, size: 5_000_000_000, mtime: -1 });
  for (const kind of ['symlink', 'hardlink', 'block', 'char', 'fifo', 'socket']) {
    assert.deepEqual(reader.entry(100), { kind, name });
  }
  assert.equal(reader.consumed, bytes.length);
});

test('entries that contradict the format are corrupt', () => {
  const wrong = [
    catalogEntry('x', name),
    catalogEntry('d', name, varint(0)),
    catalogEntry('d', name, varint(93)),
    catalogEntry('d', name, varint(2n ** 60n)),
    catalogEntry('l', Buffer.alloc(4096)),
    catalogEntry('l', name).subarray(0, -1),
    Buffer.concat([Buffer.from('l'), varint(2n ** 40n)]),
    catalogEntry('f', name, varint(1)),
    Buffer.alloc(0),
  ];
  for (const bytes of wrong) {
    assert.throws(() => new CatalogReader(bytes).entry(100), expectError('corrupt'));
  }
});
