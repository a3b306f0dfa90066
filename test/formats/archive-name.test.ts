/** Names of archives: what people write, what the server stores, what is shown. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Archive,
  archiveKind,
  displayName,
  findArchive,
  isArchiveName,
  listArchives,
  serverFileName,
} from '../../src/formats/archive-name.ts';
import { expectError } from '../support/expect-error.ts';

/** Short name, server name, kind. */
const names = [
  ['drive-scsi0.img', 'drive-scsi0.img.fidx', 'fixed'],
  ['root.pxar', 'root.pxar.didx', 'dynamic'],
  ['root.mpxar', 'root.mpxar.didx', 'dynamic'],
  ['root.ppxar', 'root.ppxar.didx', 'dynamic'],
  ['catalog.pcat1', 'catalog.pcat1.didx', 'dynamic'],
  ['qemu-server.conf', 'qemu-server.conf.blob', 'blob'],
  ['index.json', 'index.json.blob', 'blob'],
  ['rsa-encrypted.key', 'rsa-encrypted.key.blob', 'blob'],
  ['client.log', 'client.log.blob', 'blob'],
  ['a.b-c_d.img', 'a.b-c_d.img.fidx', 'fixed'],
] as const;

test('short and server names lead to each other, and the server name to the kind', () => {
  for (const [short, server, kind] of names) {
    assert.equal(serverFileName(short), server);
    assert.equal(serverFileName(server), server);
    assert.equal(displayName(server), short);
    assert.equal(archiveKind(server), kind);
    assert.ok(isArchiveName(server));
    assert.ok(!isArchiveName(short));
  }
});

test('a server name whose short form would not lead back is shown as it is', () => {
  for (const name of ['abc.blob', 'drive.img.blob', 'root.pxar.fidx', 'x.fidx', 'plain', '']) {
    assert.equal(displayName(name), name);
  }
});

test('names that no archive can have are refused', () => {
  const wrong = [
    '',
    '.',
    '..',
    '.img',
    '.hidden.img',
    '-x.img',
    'a/b.img',
    '../a.img',
    'a b.img',
    'ä.img',
    'a.img\n',
    'a\0.img',
  ];
  for (const name of wrong) {
    assert.throws(
      () => serverFileName(name),
      expectError('usage', /not a valid archive name/),
      name,
    );
    assert.ok(!isArchiveName(`${name}.fidx`) || name === '', name);
  }
});

test('extensions that say no kind are refused, with the ones that do', () => {
  for (const name of ['abc', 'abc.txt', 'abc.', 'abc.IMG', 'abc.toString', 'abc.constructor']) {
    assert.throws(() => serverFileName(name), expectError('usage', /no known archive extension/));
    assert.throws(() => archiveKind(name), expectError('usage', /\.fidx/));
    assert.ok(!isArchiveName(name));
  }
});

const single = (name: string, filename: string): Archive => ({ name, split: false, filename });
const rootPair: Archive = {
  name: 'root.pxar',
  split: true,
  metadata: 'root.mpxar.didx',
  payload: 'root.ppxar.didx',
};

test('a split archive is listed once, under its pxar name', () => {
  assert.deepEqual(
    listArchives(['a.conf.blob', 'root.ppxar.didx', 'root.mpxar.didx', 'd.img.fidx']),
    [single('a.conf', 'a.conf.blob'), rootPair, single('d.img', 'd.img.fidx')],
  );
});

test('half of a split archive is listed by itself', () => {
  assert.deepEqual(listArchives(['root.mpxar.didx', 'other.ppxar.didx']), [
    single('root.mpxar', 'root.mpxar.didx'),
    single('other.ppxar', 'other.ppxar.didx'),
  ]);
});

test('a whole archive keeps its name beside a split one of the same name', () => {
  const filenames = ['root.mpxar.didx', 'root.ppxar.didx', 'root.pxar.didx'];
  const pair: Archive = { ...rootPair, name: 'root.mpxar' };
  const whole = single('root.pxar', 'root.pxar.didx');
  assert.deepEqual(listArchives(filenames), [pair, whole]);
  assert.deepEqual(findArchive('root.pxar', filenames), whole);
  assert.deepEqual(findArchive('root.mpxar', filenames), pair);
});

test('a split archive is found by all of its names', () => {
  const filenames = ['root.ppxar.didx', 'root.mpxar.didx'];
  for (const form of ['pxar', 'mpxar', 'ppxar']) {
    assert.deepEqual(findArchive(`root.${form}`, filenames), rootPair);
    assert.deepEqual(findArchive(`root.${form}.didx`, filenames), rootPair);
  }
});

test('what is not there is not found', () => {
  const filenames = ['root.mpxar.didx', 'abc.blob', 'drive.img.fidx'];
  const absent = [
    'root.pxar',
    'root.ppxar',
    'abc',
    'drive',
    'drive.img.blob',
    '',
    '..',
    'a/b',
    'autorun.inf',
  ];
  for (const name of absent) assert.equal(findArchive(name, filenames), undefined, name);
});

test('every archive of a snapshot has a name of its own that finds it', () => {
  const filenames = [
    ...names.map(([, server]) => server),
    'abc.blob',
    'root.pxar.fidx',
    'drive-scsi0.img.blob',
    'x.mpxar.didx',
    'y.mpxar.didx',
    'y.ppxar.didx',
  ];
  const archives = listArchives(filenames);
  assert.equal(new Set(archives.map(({ name }) => name)).size, archives.length);
  for (const archive of archives) assert.deepEqual(findArchive(archive.name, filenames), archive);
});
