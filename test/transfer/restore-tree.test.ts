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
import { isPbsfsError, PbsfsError } from '../../src/errors.ts';
import { TransferReport } from '../../src/transfer/report.ts';
import { RestoreRun } from '../../src/transfer/restore-run.ts';
import { restoreNode } from '../../src/transfer/restore-tree.ts';
import { TargetDirectory } from '../../src/transfer/target-directory.ts';
import type { Directory, Node } from '../../src/tree/node.ts';
import { directory, file, type MemoryOptions, special, symlink } from './support/node-tree.ts';
import { failuresOf, restore } from './support/restore.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

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
