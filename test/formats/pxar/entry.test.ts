import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kindOfMode, nameKey, whyUnusable } from '../../../src/formats/pxar/entry.ts';
import {
  decodeDevice,
  decodeFileName,
  decodeFormatVersion,
  decodeHardLink,
  decodePayloadRef,
  decodeSymlink,
} from '../../../src/formats/pxar/entry-items.ts';
import { expectError } from '../../support/expect-error.ts';

function u64(...values: readonly bigint[]): Buffer {
  return Buffer.from(BigUint64Array.from(values).buffer);
}

test('the type bits of a mode tell the kind', () => {
  const kinds = [0o040755, 0o100644, 0o120777, 0o060660, 0o020666, 0o010600, 0o140755].map(
    kindOfMode,
  );
  const all = ['directory', 'file', 'symlink', 'block', 'char', 'fifo', 'socket'];
  assert.deepEqual(kinds, all);
  assert.equal(kindOfMode(0o644), undefined);
  assert.equal(kindOfMode(0o170644), undefined);
});

test('versions 1 and 2 are known, others are unsupported', () => {
  assert.equal(decodeFormatVersion(u64(1n)), 1);
  assert.equal(decodeFormatVersion(u64(2n)), 2);
  assert.throws(() => decodeFormatVersion(u64(3n)), expectError('unsupported', /version 3/));
});

test('names and link targets end with their NUL', () => {
  assert.deepEqual(
    decodeFileName(Buffer.from('a\xff\0', 'latin1')),
    Buffer.from('a\xff', 'latin1'),
  );
  assert.deepEqual(decodeSymlink(Buffer.from('../x\0')), Buffer.from('../x'));
  assert.throws(() => decodeFileName(Buffer.from('ab')), expectError('corrupt', /NUL/));
  assert.throws(() => decodeSymlink(Buffer.from('ab')), expectError('corrupt', /NUL/));
  assert.throws(() => decodeSymlink(Buffer.from('a\0b\0')), expectError('corrupt', /NUL/));
});

test('what no filesystem can show is told from what only looks odd', () => {
  const unusable = ['', '.', '..', 'a/b', '/', 'a\0b', 'x'.repeat(256)];
  for (const name of unusable) assert.ok(whyUnusable(nameKey(Buffer.from(name))), name);
  const odd = ['...', '.a', ' ', '\n', '\\', '-rf', '\xff\xfe', 'x'.repeat(255), '😀'.repeat(63)];
  for (const name of odd) assert.equal(whyUnusable(nameKey(Buffer.from(name))), undefined, name);
});

test('a hard link points back to its file by a distance', () => {
  const path = Buffer.from('a\0');
  assert.equal(decodeHardLink(Buffer.concat([u64(111n), path]), 191), 80);
  for (const distance of [0n, 192n, 2n ** 60n]) {
    const content = Buffer.concat([u64(distance), path]);
    assert.throws(() => decodeHardLink(content, 191), expectError('corrupt'));
  }
});

test('device numbers and payload references are two numbers each', () => {
  assert.deepEqual(decodeDevice(u64(2748n, 74565n)), { major: 2748, minor: 74565 });
  assert.deepEqual(decodePayloadRef(u64(16n, 5n)), { position: 16, size: 5 });
  assert.throws(() => decodePayloadRef(u64(2n ** 53n, 5n)), expectError('corrupt'));
  assert.throws(() => decodeDevice(u64(1n, 2n ** 64n - 1n)), expectError('corrupt'));
});
