import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isPbsfsError } from '../../src/errors.ts';
import { formatTreeName, formatTreePath, parseTreePath } from '../../src/tree/tree-path.ts';

test('a printable name stands for itself, umlauts and emoji too', () => {
  for (const name of ['drive-scsi0.img', 'Größe', '日本', '😀', ' leading and trailing ', '-rf']) {
    assert.equal(formatTreeName(Buffer.from(name)), name);
    assert.deepEqual(parseTreePath(name), [Buffer.from(name)]);
  }
});

test('bytes that are not UTF-8, control characters and backslashes are escaped', () => {
  const cases: [number[], string][] = [
    [[0xff], '\\xFF'],
    [[0x61, 0xc3], 'a\\xC3'],
    [[0x0a], '\\x0A'],
    [[0x5c], '\\\\'],
    [[0x5c, 0x78, 0x34, 0x31], '\\\\x41'],
    [[0xe2, 0x80, 0x8b], '\\xE2\\x80\\x8B'],
    [[0xef, 0xbb, 0xbf, 0x61], '\\xEF\\xBB\\xBFa'],
    [[0xed, 0xa0, 0x80], '\\xED\\xA0\\x80'],
    [[0xc0, 0xaf], '\\xC0\\xAF'],
  ];
  for (const [bytes, text] of cases) {
    assert.equal(formatTreeName(Buffer.from(bytes)), text);
    assert.deepEqual(parseTreePath(text), [Buffer.from(bytes)]);
  }
});

test('empty components and dots vanish', () => {
  assert.deepEqual(parseTreePath('/vm//100/./x/').map(String), ['vm', '100', 'x']);
  assert.deepEqual(parseTreePath(''), []);
  assert.deepEqual(parseTreePath('/'), []);
});

test('what names nothing is a usage error', () => {
  for (const path of ['a/../b', '..', 'a\\b', 'a\\x4', 'a\\x00', 'a\\x2f', '\\q']) {
    assert.throws(
      () => parseTreePath(path),
      (error) => isPbsfsError(error, 'usage'),
      path,
    );
  }
});

test('every name of bytes comes back from its text', () => {
  const name = fc
    .uint8Array({ minLength: 1, maxLength: 64 })
    .map((bytes) => Buffer.from(bytes).filter((byte) => byte !== 0 && byte !== 0x2f))
    .map((bytes) => Buffer.from(bytes))
    .filter((bytes) => bytes.length > 0 && !['.', '..'].includes(bytes.toString('latin1')));
  fc.assert(
    fc.property(fc.array(name, { maxLength: 5 }), (names) => {
      assert.deepEqual(parseTreePath(formatTreePath(names)), names);
    }),
  );
});
