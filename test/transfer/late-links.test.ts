/** Names that a tree learns of too late, and chains of names whose first one fails. */
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { test } from 'node:test';
import { parsePathPattern } from '../../src/transfer/path-pattern.ts';
import { restoreTree } from '../../src/transfer/restore-tree.ts';
import type { Directory } from '../../src/tree/node.ts';
import { directory, file } from './support/node-tree.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

/** As a large archive tells it: the first name has one link, later ones have more. */
function lateTree(): Directory {
  const one = { ino: 900, nlink: 1 };
  const more = { ino: 900, nlink: 3 };
  return directory({
    a: directory({ first: file('same', one), other: file('same', { ino: 901 }) }),
    b: directory({ second: file('same', more) }),
    c: directory({ third: file('same', more) }, { mtime: { seconds: 5, nanos: 0 } }),
  });
}

test('late names are linked to the first one, and directories keep their times', async () => {
  using temporary = temporaryDirectory();
  const everything = { patterns: [], stripComponents: 0 };
  const report = await restoreTree(lateTree(), temporary.path, everything, { existing: 'refuse' });
  assert.deepEqual([report.failures, report.files], [[], 4]);
  const inode = (path: string): number => statSync(temporary.join(path)).ino;
  assert.equal(inode('b/second'), inode('a/first'));
  assert.equal(inode('c/third'), inode('a/first'));
  assert.notEqual(inode('a/other'), inode('a/first'));
  assert.equal(statSync(temporary.join('c')).mtimeMs, 5000);
});

test('late names whose first one was not selected are links to each other', async () => {
  using temporary = temporaryDirectory();
  const selection = { patterns: [parsePathPattern('!/a')], stripComponents: 0 };
  await restoreTree(lateTree(), temporary.path, selection, { existing: 'refuse' });
  assert.equal(statSync(temporary.join('b/second')).ino, statSync(temporary.join('c/third')).ino);
  assert.equal(readFileSync(temporary.join('c/third'), 'utf8'), 'same');
});

test('where the first name fails, the next one takes its place', async () => {
  using temporary = temporaryDirectory();
  const shared = { ino: 902, nlink: 3 };
  const root = directory([
    ['first', file('same', { ...shared, damaged: [[0, 1]] })],
    ['second', file('same', shared)],
    ['third', file('same', shared)],
  ]);
  const everything = { patterns: [], stripComponents: 0 };
  const report = await restoreTree(root, temporary.path, everything, { existing: 'refuse' });
  assert.deepEqual(
    report.failures.map(({ path }) => path.join('/')),
    ['first'],
  );
  assert.equal(statSync(temporary.join('second')).ino, statSync(temporary.join('third')).ino);
});
