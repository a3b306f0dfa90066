import assert from 'node:assert/strict';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { isPbsfsError } from '../../src/errors.ts';
import { parsePathPattern } from '../../src/transfer/path-pattern.ts';
import { TransferReport } from '../../src/transfer/report.ts';
import { type RestoreOptions, RestoreRun } from '../../src/transfer/restore-run.ts';
import { restoreNode, restoreTree } from '../../src/transfer/restore-tree.ts';
import type { Selection } from '../../src/transfer/selection.ts';
import { TargetDirectory } from '../../src/transfer/target-directory.ts';
import type { Directory, Node } from '../../src/tree/node.ts';
import { directory, file, type MemoryOptions, special, symlink } from './support/node-tree.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

async function restore(
  root: Directory,
  target: string,
  options: Partial<RestoreOptions & Selection> = {},
): Promise<TransferReport> {
  const { patterns = [], stripComponents = 0, ...rest } = options;
  return await restoreTree(
    root,
    target,
    { patterns, stripComponents },
    { existing: 'refuse', ...rest },
  );
}

/** `path: message` of each failure. */
function failuresOf(report: TransferReport): string[] {
  return report.failures.map(({ path, error }) => `${path.join('/')}: ${error.message}`);
}

test('contents, modes, times to the nanosecond and links come back', async () => {
  using temporary = temporaryDirectory();
  const early: MemoryOptions = { mtime: { seconds: -2, nanos: 500_000_001 } };
  const root = directory({
    a: file('hello', { mode: 0o4751 }),
    d: directory({ b: file('', early), l: symlink('../../a', early) }, { mode: 0o500 }),
  });
  const target = temporary.join('new/target');
  const report = await restore(root, target);
  assert.deepEqual(failuresOf(report), []);
  assert.deepEqual([report.entries, report.files, report.bytes], [5, 2, 5]);
  assert.equal(readFileSync(`${target}/a`, 'utf8'), 'hello');
  assert.equal(statSync(`${target}/a`).mode, 0o104751);
  assert.equal(statSync(`${target}/d`).mode, 0o40500);
  assert.equal(readlinkSync(`${target}/d/l`), '../../a');
  const times = ['a', 'd', 'd/b', 'd/l', ''].map(
    (name) => lstatSync(`${target}/${name}`, { bigint: true }).mtimeNs,
  );
  const usual = 1_700_000_000_123_456_789n;
  assert.deepEqual(times, [usual, usual, -1_499_999_999n, -1_499_999_999n, usual]);
});

test('names are bytes', async () => {
  using temporary = temporaryDirectory();
  const names = [Buffer.from([0xff, 0x0a]), Buffer.from('n\u0303-ñ-🎉'), Buffer.from('-x \\')];
  const root = directory(names.map((name) => [name, file('x')] as const));
  assert.deepEqual(failuresOf(await restore(root, temporary.path)), []);
  const found = readdirSync(Buffer.from(temporary.path), { encoding: 'buffer' });
  assert.deepEqual(found.toSorted(Buffer.compare), names.toSorted(Buffer.compare));
});

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
    const { renameSync } = await import('node:fs');
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

test('hard links become links, to nothing but what was restored', async () => {
  using temporary = temporaryDirectory();
  const shared = { ino: 77, nlink: 3 };
  const root = directory({
    first: file('same', shared),
    d: directory({ second: file('same', shared) }),
    other: file('another', { ino: 77, nlink: 2 }),
    third: file('same', shared),
  });
  assert.deepEqual(failuresOf(await restore(root, temporary.path)), []);
  const inodes = ['first', 'd/second', 'third'].map((name) => statSync(temporary.join(name)).ino);
  assert.equal(new Set(inodes).size, 1);
  assert.equal(statSync(temporary.join('first')).nlink, 3);
  // The same number with another size is another file.
  assert.equal(readFileSync(temporary.join('other'), 'utf8'), 'another');
});

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

test('a hard link is not made to what has taken the place of its first name', async () => {
  using temporary = temporaryDirectory();
  writeFileSync(temporary.join('secret'), 'secret');
  const target = temporary.join('target');
  const shared = { ino: 79, nlink: 2 };
  const swapped = file('x', {
    onRead: async () => {
      const { linkSync, unlinkSync } = await import('node:fs');
      unlinkSync(`${target}/first`);
      linkSync(temporary.join('secret'), `${target}/first`);
    },
  });
  const root = directory({ first: file('same', shared), swapped, z: file('same', shared) });
  const report = await restore(root, target, { jobs: 1 });
  assert.deepEqual(failuresOf(report), ['z: its first name was taken away']);
  assert.deepEqual(readdirSync(target), ['first', 'swapped']);
});

test('zeros become holes', async () => {
  using temporary = temporaryDirectory();
  const content = Buffer.alloc(20 * 1024 * 1024 + 5);
  content.write('start', 0);
  content.write('middle', 9 * 1024 * 1024 + 100);
  const root = directory({ sparse: file(content), zeros: file(Buffer.alloc(100_000)) });
  await restore(root, temporary.path);
  assert.ok(readFileSync(temporary.join('sparse')).equals(content));
  assert.ok(statSync(temporary.join('sparse')).blocks * 512 < 64 * 1024);
  assert.equal(statSync(temporary.join('zeros')).size, 100_000);
  assert.equal(statSync(temporary.join('zeros')).blocks, 0);
});

test('what is there already stays, and is named', async () => {
  using temporary = temporaryDirectory();
  mkdirSync(temporary.join('d'), { mode: 0o711 });
  writeFileSync(temporary.join('a'), 'old');
  const root = directory({ a: file('new'), d: directory({ b: file('b') }, { mode: 0o700 }) });
  const report = await restore(root, temporary.path);
  assert.deepEqual(failuresOf(report), ['a: exists already']);
  assert.equal(readFileSync(temporary.join('a'), 'utf8'), 'old');
  assert.equal(readFileSync(temporary.join('d/b'), 'utf8'), 'b');
  assert.equal(statSync(temporary.join('d')).mode & 0o777, 0o711);
});

test('overwriting replaces files and links, but no directory by a file', async () => {
  using temporary = temporaryDirectory();
  mkdirSync(temporary.join('keep/inner'), { recursive: true });
  writeFileSync(temporary.join('a'), 'old', { mode: 0o444 });
  writeFileSync(temporary.join('d'), 'a file');
  symlinkSync('nowhere', temporary.join('l'));
  const root = directory({
    a: file('new'),
    d: directory({ b: file('b') }),
    keep: file('evil'),
    l: file('l'),
  });
  const report = await restore(root, temporary.path, { existing: 'replace' });
  assert.deepEqual(failuresOf(report), ['keep: a directory stands there already']);
  assert.deepEqual(readdirSync(temporary.path), ['a', 'd', 'keep', 'l']);
  for (const [name, content] of [
    ['a', 'new'],
    ['d/b', 'b'],
    ['l', 'l'],
  ] as const) {
    assert.equal(readFileSync(temporary.join(name), 'utf8'), content);
  }
});

test('a damaged file is left out, named, and does not replace one that was there', async () => {
  using temporary = temporaryDirectory();
  writeFileSync(temporary.join('bad2'), 'old');
  const damaged: [number, number][] = [[5_000_000, 5_000_001]];
  const root = directory({
    bad: file(Buffer.alloc(10_000_000, 1), { damaged }),
    bad2: file(Buffer.alloc(10_000_000, 1), { damaged }),
    good: file('good'),
  });
  const report = await restore(root, temporary.path, { existing: 'replace' });
  assert.deepEqual(failuresOf(report).toSorted(), [
    'bad2: chunk is missing',
    'bad: chunk is missing',
  ]);
  assert.equal(report.worst?.code, 'chunk-missing');
  assert.deepEqual(readdirSync(temporary.path), ['bad2', 'good']);
  assert.equal(readFileSync(temporary.join('bad2'), 'utf8'), 'old');
});

test('resuming reads only what was not restored', async () => {
  using temporary = temporaryDirectory();
  const read: string[] = [];
  const reading = (name: string, content: string): ReturnType<typeof file> =>
    file(content, { onRead: () => void read.push(name) });
  const shared = { ino: 80, nlink: 2 };
  const root = directory({
    a: reading('a', 'content a'),
    b: reading('b', 'content b'),
    h1: file('h', shared),
    h2: file('h', shared),
    l: symlink('a'),
  });
  await restore(root, temporary.path);
  const inodes = ['h1', 'h2'].map((name) => statSync(temporary.join(name)).ino);
  writeFileSync(temporary.join('b'), 'partial c');
  read.length = 0;
  const report = await restore(root, temporary.path, { existing: 'resume' });
  assert.deepEqual(failuresOf(report), []);
  assert.deepEqual(read, ['b']);
  assert.equal(readFileSync(temporary.join('b'), 'utf8'), 'content b');
  assert.deepEqual(
    ['h1', 'h2'].map((name) => statSync(temporary.join(name)).ino),
    inodes,
  );
  assert.deepEqual(readdirSync(temporary.path), ['a', 'b', 'h1', 'h2', 'l']);
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

test('a target that is made and gets no metadata is as open as mkdir(1) makes it', async () => {
  using temporary = temporaryDirectory();
  const root = directory({ d: directory({ x: file('x') }) }, { mode: 0o700 });
  await restore(root, temporary.join('a/b'), { stripComponents: 1 });
  const usual = 0o777 & ~process.umask();
  assert.equal(statSync(temporary.join('a')).mode & 0o777, usual);
  assert.equal(statSync(temporary.join('a/b')).mode & 0o777, usual);
});

test('without koffi all is restored that Node can do, and the rest is counted', async () => {
  using temporary = temporaryDirectory();
  const report = new TransferReport();
  const run = new RestoreRun(TargetDirectory.openRoot(temporary.path), report, undefined, {
    existing: 'refuse',
  });
  const entries: [string, Node][] = [
    ['f', file('content', { mode: 0o640, xattrs: { 'user.a': '1', 'security.capability': '2' } })],
    ['l', symlink('f')],
    ['p', special('fifo')],
  ];
  for (const [name, node] of entries) {
    const path = [Buffer.from(name)];
    await run.restore({ path, target: path, node });
  }
  await run.end(async function* () {});
  assert.deepEqual(failuresOf(report), []);
  assert.deepEqual(Object.fromEntries(report.losses), {
    'extended attributes user.* (the package koffi is missing)': 1,
    'file capabilities (the package koffi is missing)': 1,
    'exact times (the package koffi is missing)': 2,
    'device nodes, fifos and sockets (the package koffi is missing)': 1,
  });
  assert.deepEqual(readdirSync(temporary.path), ['f', 'l']);
  const { mode, mtimeMs } = statSync(temporary.join('f'));
  assert.deepEqual([mode, Math.floor(mtimeMs)], [0o100640, 1_700_000_000_123]);
});

test('a depth of 4,096 directories is no problem', async () => {
  // In memory where that can be: making them takes ext4 five seconds.
  using temporary = temporaryDirectory(0o700, existsSync('/dev/shm') ? '/dev/shm' : tmpdir());
  let deep = directory({ bottom: file('bottom') });
  for (let depth = 0; depth < 4096; depth++) deep = directory({ d: deep });
  const report = await restore(deep, temporary.path);
  assert.deepEqual(failuresOf(report), []);
  assert.equal(report.entries, 4098);
});

test('a directory that cannot be listed is named, and the rest is restored', async () => {
  using temporary = temporaryDirectory();
  const { PbsfsError } = await import('../../src/errors.ts');
  const broken: Directory = {
    ...directory({}),
    list: async () => {
      throw new PbsfsError('corrupt', 'no goodbye table');
    },
  };
  const report = await restore(directory({ broken, f: file('f') }), temporary.path);
  assert.deepEqual(failuresOf(report), ['broken: no goodbye table']);
  assert.deepEqual(readdirSync(temporary.path), ['broken', 'f']);
});

test('an unreachable repository ends the restore', async () => {
  using temporary = temporaryDirectory();
  const { PbsfsError } = await import('../../src/errors.ts');
  const gone = file('x', {
    onRead: () => {
      throw new PbsfsError('unreachable', 'connection refused');
    },
  });
  const root = directory({
    a: gone,
    ...Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`f${i}`, file('f')])),
  });
  await assert.rejects(
    restore(root, temporary.path, { jobs: 1 }),
    (error) => isPbsfsError(error, 'unreachable') && error.context.path === 'a',
  );
  assert.deepEqual(readdirSync(temporary.path).length < 5, true);
});

test('an interrupted restore takes unfinished files away', async () => {
  using temporary = temporaryDirectory();
  const abort = new AbortController();
  const large = file(Buffer.alloc(30_000_000, 1), {
    onRead: (offset) => {
      if (offset > 10_000_000) abort.abort();
    },
  });
  await assert.rejects(
    restore(directory({ small: file('s'), large }), temporary.path, { signal: abort.signal }),
    (error) => isPbsfsError(error, 'aborted'),
  );
  assert.deepEqual(readdirSync(temporary.path), ['small']);
});

test('one file is restored under the name given', async () => {
  using temporary = temporaryDirectory();
  const report = await restoreNode(
    file('x', { mode: 0o640 }),
    temporary.join('d'),
    Buffer.from('renamed'),
    { existing: 'refuse' },
  );
  assert.deepEqual(failuresOf(report), []);
  assert.equal(readFileSync(temporary.join('d/renamed'), 'utf8'), 'x');
  assert.equal(statSync(temporary.join('d/renamed')).mode, 0o100640);
});

test('fifos and sockets are made by anybody', async () => {
  using temporary = temporaryDirectory();
  const root = directory({ p: special('fifo', { mode: 0o622 }), s: special('socket') });
  assert.deepEqual(failuresOf(await restore(root, temporary.path)), []);
  assert.equal(lstatSync(temporary.join('p')).mode, 0o10622);
  assert.equal(lstatSync(temporary.join('s')).isSocket(), true);
  assert.equal(
    lstatSync(temporary.join('p'), { bigint: true }).mtimeNs,
    1_700_000_000_123_456_789n,
  );
});
