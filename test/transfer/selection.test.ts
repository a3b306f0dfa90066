import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { test } from 'node:test';
import { parsePathPattern } from '../../src/transfer/path-pattern.ts';
import { directory, file } from './support/node-tree.ts';
import { failuresOf, restore } from './support/restore.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

test('of hard links whose first name is left out, the next one is the file', async () => {
  using temporary = temporaryDirectory();
  const shared = { ino: 78, nlink: 3 };
  const root = directory({
    a: file('same', shared),
    d: directory({ b: file('same', shared), c: file('same', shared) }),
  });
  await restore(root, temporary.path, { patterns: [parsePathPattern('/d')] });
  assert.deepEqual(readdirSync(temporary.path), ['d']);
  assert.equal(statSync(temporary.join('d/b')).ino, statSync(temporary.join('d/c')).ino);
  assert.equal(readFileSync(temporary.join('d/c'), 'utf8'), 'same');
});

test('patterns select, with the directories on the way', async () => {
  using temporary = temporaryDirectory();
  const root = directory({
    etc: directory(
      { 'a.conf': file('a'), 'b.txt': file('b'), sub: directory({ 'c.conf': file('c') }) },
      { mode: 0o711 },
    ),
    usr: directory({ x: file('x') }),
  });
  const patterns = ['*.conf', '!/etc/sub/*'].map(parsePathPattern);
  await restore(root, temporary.join('t'), { patterns });
  const found = readdirSync(temporary.join('t'), { recursive: true });
  assert.deepEqual(found, ['etc', 'etc/a.conf']);
  assert.equal(statSync(temporary.join('t/etc')).mode & 0o777, 0o711);
});

test('a directory that is selected brings all below it, and exclusions alone start from all', async () => {
  using temporary = temporaryDirectory();
  const root = directory({
    d: directory({ a: file('a'), e: directory({}), skip: file('s') }),
    f: file('f'),
  });
  const listed = async (...texts: string[]): Promise<unknown> => {
    const target = temporary.join(texts.join('').replaceAll('/', '_'));
    await restore(root, target, { patterns: texts.map(parsePathPattern) });
    return readdirSync(target, { recursive: true });
  };
  assert.deepEqual(await listed('d/', '!skip'), ['d', 'd/a', 'd/e']);
  assert.deepEqual(await listed('!d'), ['f']);
});

test('nothing selected makes nothing', async () => {
  using temporary = temporaryDirectory();
  const patterns = [parsePathPattern('none')];
  const report = await restore(directory({ a: file('a') }), temporary.join('t'), { patterns });
  assert.equal(report.entries, 0);
  assert.deepEqual(readdirSync(temporary.path), []);
});

test('leading components are stripped, and what has no more is left out', async () => {
  using temporary = temporaryDirectory();
  const root = directory({
    a: directory({ x: file('x'), d: directory({ y: file('y') }) }),
    b: directory({ d: directory({ z: file('z') }) }),
    top: file('top'),
  });
  const report = await restore(root, temporary.join('t'), { stripComponents: 1 });
  assert.deepEqual(failuresOf(report), []);
  const found = readdirSync(temporary.join('t'), { recursive: true });
  assert.deepEqual(found.toSorted(), ['d', 'd/y', 'd/z', 'x']);
});
