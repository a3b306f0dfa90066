/** Whatever an archive says, and whatever somebody does meanwhile: nothing outside the target is touched. */
import assert from 'node:assert/strict';
import {
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { test } from 'node:test';
import type { Directory } from '../../src/tree/node.ts';
import { directory, file, symlink } from './support/node-tree.ts';
import { failuresOf, restore } from './support/restore.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

test('names that lead elsewhere are refused, and all else is restored', async () => {
  using temporary = temporaryDirectory();
  const names = ['', '.', '..', 'a/b', '/etc', '../out', 'nul\0'];
  const evil = names.map((name) => [name, file('evil')] as const);
  const root = directory([
    ...evil,
    ['..', directory({ out: file('evil') })],
    ['good', file('good')],
  ]);
  const report = await restore(root, temporary.join('t'));
  assert.equal(report.failures.length, names.length + 1);
  assert.equal(report.worst?.code, 'corrupt');
  assert.deepEqual(readdirSync(temporary.join('t')), ['good']);
  assert.deepEqual(readdirSync(temporary.path), ['t']);
});

test('a link in the archive is not followed by what comes after it', async () => {
  using temporary = temporaryDirectory();
  mkdirSync(temporary.join('outside'));
  const root = directory([
    ['d', symlink('../outside')],
    ['d', directory({ f: file('evil'), sub: directory({ g: file('evil') }) })],
    ['l', symlink(temporary.join('outside/new'))],
    ['l', file('evil')],
  ]);
  for (const existing of ['refuse', 'replace', 'resume'] as const) {
    const report = await restore(root, temporary.join(existing), { existing });
    assert.equal(report.failures.length, existing === 'refuse' ? 2 : 0);
    assert.deepEqual(readdirSync(temporary.join('outside')), []);
  }
  assert.equal(readFileSync(temporary.join('replace/d/f'), 'utf8'), 'evil');
  assert.equal(lstatSync(temporary.join('replace/l')).isFile(), true);
});

test('a directory that is swapped for a link midway does not lead out of the target', async () => {
  using temporary = temporaryDirectory();
  const target = temporary.join('target');
  mkdirSync(temporary.join('outside'));
  const swap = async (path: string): Promise<void> => {
    renameSync(`${target}/${path}`, temporary.join('moved'));
    symlinkSync(temporary.join('outside'), `${target}/${path}`);
  };
  const inner = directory({ g: file('g'), deeper: directory({ h: file('h') }) });
  const sub: Directory = {
    ...inner,
    list: async () => {
      await swap('d');
      return await inner.list();
    },
  };
  const root = directory({ d: directory({ a: file('a'), sub, z: file('z') }) });
  assert.deepEqual(failuresOf(await restore(root, target)), []);
  assert.deepEqual(readdirSync(temporary.join('outside')), []);
  assert.deepEqual(readdirSync(temporary.join('moved')), ['a', 'sub', 'z']);
  assert.deepEqual(readdirSync(temporary.join('moved/sub')), ['deeper', 'g']);
});

test('a link that appears where a directory is about to be made is not entered', async () => {
  using temporary = temporaryDirectory();
  const target = temporary.join('target');
  mkdirSync(temporary.join('outside'));
  const sub = directory({ f: file('evil') });
  const late: Directory = {
    ...sub,
    attributes: async () => {
      symlinkSync(temporary.join('outside'), `${target}/sub`);
      return await sub.attributes();
    },
  };
  const report = await restore(directory({ sub: late, z: file('z') }), target);
  assert.equal(report.failures.length, 1);
  assert.deepEqual(readdirSync(temporary.join('outside')), []);
  assert.equal(readFileSync(`${target}/z`, 'utf8'), 'z');
});

test('a hard link is not made to what has taken the place of its first name', async () => {
  using temporary = temporaryDirectory();
  writeFileSync(temporary.join('secret'), 'secret');
  const target = temporary.join('target');
  const shared = { ino: 79, nlink: 2 };
  const swapped = file('x', {
    onRead: async () => {
      unlinkSync(`${target}/first`);
      linkSync(temporary.join('secret'), `${target}/first`);
    },
  });
  const root = directory({ first: file('same', shared), swapped, z: file('same', shared) });
  const report = await restore(root, target, { jobs: 1 });
  assert.deepEqual(failuresOf(report), ['z: its first name was taken away']);
  assert.deepEqual(readdirSync(target), ['first', 'swapped']);
});
