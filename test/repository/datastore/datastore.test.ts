import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { type ErrorCode, formatError, isPbsfsError } from '../../../src/errors.ts';
import {
  formatGroup,
  formatNamespace,
  type SnapshotId,
} from '../../../src/formats/snapshot-path.ts';
import { openDatastore } from '../../../src/repository/datastore/datastore.ts';
import {
  chunkPath,
  damageChunk,
  temporaryDatastore,
  type WrittenSnapshot,
  writeChunkFile,
  writeSnapshot,
} from '../../support/encode-datastore.ts';
import { needs } from '../../support/requirements.ts';

const time = 1_700_000_000;
const vm100: SnapshotId = { namespace: [], type: 'vm', id: '100', time };
const image = Buffer.alloc(150_000, 'pbsfs ');
const chunkSize = 65_536;

function writeVm(store: string, more: Partial<Parameters<typeof writeSnapshot>[1]> = {}) {
  return writeSnapshot(store, {
    group: 'vm/100',
    time,
    images: { 'drive-scsi0.img': { data: image, chunkSize } },
    blobs: { 'qemu-server.conf': Buffer.from('cores: 2\n') },
    ...more,
  });
}

function firstDigest(written: WrittenSnapshot): string {
  const [chunk] = written.chunks('drive-scsi0.img');
  assert.ok(chunk);
  return chunk.digest;
}

function isCode(code: ErrorCode, pattern = /./): (error: unknown) => boolean {
  return (error) => {
    assert.ok(isPbsfsError(error, code), formatError(error));
    assert.match(formatError(error), pattern);
    return true;
  };
}

async function openVm(store: string, chunkDirs: readonly string[] = []) {
  const repository = await openDatastore(store, { chunkDirs });
  return await repository.openSnapshot(vm100);
}

test('a path that is absent, a file or no datastore is refused by name', async () => {
  using store = temporaryDatastore();
  await assert.rejects(
    openDatastore(`${store.path}/absent`),
    isCode('not-found', /absent: does not/),
  );
  await assert.rejects(openDatastore(`${store.path}/.lock`), isCode('not-directory', /\.lock/));
  mkdirSync(`${store.path}/empty`);
  await assert.rejects(
    openDatastore(`${store.path}/empty`),
    isCode('not-found', /no \.chunks.*\(/),
  );
  const chunkDirs = [`${store.path}/absent`];
  await assert.rejects(openDatastore(store.path, { chunkDirs }), isCode('not-found', /absent/));
});

test('an empty datastore has no namespaces and no groups', async () => {
  using store = temporaryDatastore();
  await using repository = await openDatastore(store.path);
  assert.equal(repository.name, store.path);
  assert.deepEqual(await repository.listNamespaces([]), []);
  assert.deepEqual(await repository.listGroups([]), []);
  const { total, used, available } = await repository.status();
  assert.ok(total > 0 && used <= total && available <= total);
});

test('what is foreign to a datastore is not listed', async () => {
  using store = temporaryDatastore();
  const { directory } = writeVm(store.path);
  for (const path of [
    'lost+found',
    'vm/-bad',
    'vm/100/not-a-time',
    'vm/100/2023-11-14T25:00:00Z',
  ]) {
    mkdirSync(join(store.path, path), { recursive: true });
  }
  for (const path of ['host', 'vm/102', 'vm/100/2023-11-15T22:13:20Z', 'ns']) {
    writeFileSync(join(store.path, path), 'a file, not a directory');
  }
  symlinkSync(join(store.path, 'vm'), join(store.path, 'ct'));
  symlinkSync(join(store.path, 'vm/100'), join(store.path, 'vm/101'));
  symlinkSync(directory, join(store.path, 'vm/100/2023-11-16T22:13:20Z'));

  await using repository = await openDatastore(store.path);
  assert.deepEqual(await repository.listNamespaces([]), []);
  const groups = await repository.listGroups([]);
  assert.deepEqual(
    groups.map(({ group }) => formatGroup(group)),
    ['vm/100'],
  );
  assert.deepEqual(await repository.listSnapshots(vm100), [
    { snapshot: { ...vm100, time }, finished: true },
  ]);
  const linked = { ...vm100, id: '101' };
  await assert.rejects(repository.listSnapshots(linked), isCode('not-found'));
  await assert.rejects(
    repository.openSnapshot({ ...vm100, time: time + 172_800 }),
    isCode('not-found'),
  );
});

test('namespaces are listed to a depth of seven', async () => {
  using store = temporaryDatastore();
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  mkdirSync(join(store.path, names.map((name) => `ns/${name}`).join('/')), { recursive: true });
  mkdirSync(join(store.path, 'ns/-not-a-name'));
  await using repository = await openDatastore(store.path);
  const found: string[] = [];
  for (let level = await repository.listNamespaces([]); level.length > 0; ) {
    found.push(...level.map(formatNamespace));
    level = (await Promise.all(level.map((ns) => repository.listNamespaces(ns)))).flat();
  }
  assert.equal(found.length, 7);
  assert.equal(found.at(-1), 'a/b/c/d/e/f/g');
});

test('names that would leave the datastore do not exist', async () => {
  using store = temporaryDatastore();
  writeVm(store.path);
  await using repository = await openDatastore(`${store.path}/vm/..`);
  await assert.rejects(repository.listNamespaces(['..']), isCode('not-found'));
  await assert.rejects(
    repository.listSnapshots({ ...vm100, id: '../vm/100' }),
    isCode('not-found'),
  );
  const reader = await repository.openSnapshot(vm100);
  for (const name of ['../owner', '../../../.lock', 'owner', '.protected', '', '../x.blob']) {
    await assert.rejects(reader.readFile(name), isCode('not-found'));
  }
});

test('an unfinished snapshot lists the files that are there already', async () => {
  using store = temporaryDatastore();
  const { directory } = writeVm(store.path, { finished: false, owner: null });
  writeFileSync(join(directory, 'drive-scsi1.img.tmp_fidx'), '');
  writeFileSync(join(directory, 'index.json.tmp_aBcDeF'), '');
  await using repository = await openDatastore(store.path);
  assert.deepEqual(await repository.listSnapshots(vm100), [{ snapshot: vm100, finished: false }]);
  assert.deepEqual(await repository.describeSnapshot(vm100), {
    snapshot: vm100,
    finished: false,
    owner: undefined,
    comment: undefined,
    protected: false,
    verification: undefined,
    fingerprint: undefined,
    size: undefined,
    files: [
      { filename: 'drive-scsi0.img.fidx', size: undefined, cryptMode: undefined },
      { filename: 'qemu-server.conf.blob', size: undefined, cryptMode: undefined },
    ],
  });
});

test('a manifest that cannot be decoded is corrupt, and its snapshot is still listed', async () => {
  using store = temporaryDatastore();
  const { directory } = writeVm(store.path);
  truncateSync(join(directory, 'index.json.blob'), 30);
  await using repository = await openDatastore(store.path);
  assert.deepEqual(await repository.listSnapshots(vm100), [{ snapshot: vm100, finished: true }]);
  const expected = /^vm\/100\/2023-11-14T22:13:20Z: index\.json\.blob: /;
  await assert.rejects(repository.describeSnapshot(vm100), isCode('corrupt', expected));
});

test('a manifest that is a symbolic link is not followed', async () => {
  using store = temporaryDatastore();
  const { directory } = writeVm(store.path);
  renameSync(join(directory, 'index.json.blob'), join(store.path, 'elsewhere'));
  symlinkSync(join(store.path, 'elsewhere'), join(directory, 'index.json.blob'));
  await using repository = await openDatastore(store.path);
  assert.deepEqual(await repository.listSnapshots(vm100), [{ snapshot: vm100, finished: false }]);
  await assert.rejects(repository.describeSnapshot(vm100), isCode('failed', /ELOOP/));
});

test('notes and owner that are missing, odd or huge do no harm', async () => {
  using store = temporaryDatastore();
  writeVm(store.path, { owner: null });
  await using repository = await openDatastore(store.path);
  const describe = async () => (await repository.listGroups([]))[0];
  const group = { namespace: [], type: 'vm', id: '100' } as const;
  assert.deepEqual(await describe(), { group, owner: undefined, comment: undefined });
  writeFileSync(join(store.path, 'vm/100/owner'), ' root@pam!tok \nrest');
  writeFileSync(join(store.path, 'vm/100/notes'), 'one\ntwo ü\n');
  assert.deepEqual(await describe(), { group, owner: 'root@pam!tok', comment: 'one' });
  assert.equal(await repository.readNotes(group), 'one\ntwo ü');
  truncateSync(join(store.path, 'vm/100/notes'), 8 * 1024 * 1024);
  rmSync(join(store.path, 'vm/100/owner'));
  mkdirSync(join(store.path, 'vm/100/owner'));
  assert.deepEqual(await describe(), { group, owner: undefined, comment: undefined });
});

const noProc = process.platform === 'linux' ? false : 'needs /proc';

test('hundreds of groups are listed with few files open at once', { skip: noProc }, async () => {
  using store = temporaryDatastore();
  for (let id = 1; id <= 300; id++) {
    mkdirSync(join(store.path, `vm/${id}`), { recursive: true });
    writeFileSync(join(store.path, `vm/${id}/owner`), 'root@pam\n');
  }
  await using repository = await openDatastore(store.path);
  const listing = repository.listGroups([]);
  let most = 0;
  let isDone = false;
  const watch = async () => {
    while (!isDone) {
      most = Math.max(most, readdirSync('/proc/self/fd').length);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const watching = watch();
  assert.equal((await listing).length, 300);
  isDone = true;
  await watching;
  assert.ok(most < 150, `${most} descriptors`);
});

test('files above what PBS can write are refused before they are read', async () => {
  using store = temporaryDatastore();
  const written = writeVm(store.path);
  truncateSync(chunkPath(store.path, firstDigest(written)), 16 * 1024 * 1024 + 45);
  truncateSync(join(written.directory, 'qemu-server.conf.blob'), 128 * 1024 * 1024 + 45);
  truncateSync(join(written.directory, 'drive-scsi0.img.fidx'), 1024 * 1024 * 1024 + 1);
  const reader = await openVm(store.path);
  const digest = Buffer.from(firstDigest(written), 'hex');
  await assert.rejects(reader.readChunk(digest), isCode('corrupt', /16777261 bytes/));
  await assert.rejects(reader.readFile('qemu-server.conf.blob'), isCode('corrupt', /134217773/));
  await assert.rejects(reader.readFile('drive-scsi0.img.fidx'), isCode('corrupt', /1073741825/));
});

test('what is no regular file is refused without waiting for it', {
  skip: needs('mkfifo'),
}, async () => {
  using store = temporaryDatastore();
  const written = writeVm(store.path);
  const digest = firstDigest(written);
  rmSync(chunkPath(store.path, digest));
  await promisify(execFile)('mkfifo', [chunkPath(store.path, digest)]);
  rmSync(join(written.directory, 'qemu-server.conf.blob'));
  mkdirSync(join(written.directory, 'qemu-server.conf.blob'));
  const reader = await openVm(store.path);
  await assert.rejects(reader.readChunk(Buffer.from(digest, 'hex')), isCode('corrupt', /regular/));
  await assert.rejects(reader.readFile('qemu-server.conf.blob'), isCode('corrupt', /regular/));
});

test('a chunk that is missing is named, and its .bad file is never read', async () => {
  using store = temporaryDatastore();
  const digest = firstDigest(writeVm(store.path));
  renameSync(chunkPath(store.path, digest), `${chunkPath(store.path, digest)}.0.bad`);
  const reader = await openVm(store.path);
  const missing = isCode('chunk-missing', new RegExp(`${digest}.*--chunk-dir`));
  await assert.rejects(reader.readChunk(Buffer.from(digest, 'hex')), missing);
  rmSync(join(store.path, '.chunks'), { recursive: true });
  await assert.rejects(reader.readChunk(Buffer.from(digest, 'hex')), missing);
});

test('an empty chunk file means that the chunk is not stored here', async () => {
  using store = temporaryDatastore();
  const digest = firstDigest(writeVm(store.path));
  damageChunk(store.path, digest, 'empty');
  const reader = await openVm(store.path);
  const expected = isCode('chunk-missing', /its file is empty.*S3/);
  await assert.rejects(reader.readChunk(Buffer.from(digest, 'hex')), expected);
});

test('what a pruned snapshot had is stale, whether file or chunk', async () => {
  using store = temporaryDatastore();
  const written = writeVm(store.path);
  const digest = Buffer.from(firstDigest(written), 'hex');
  const reader = await openVm(store.path);
  rmSync(written.directory, { recursive: true });
  const stale = isCode('stale', /vm\/100\/2023-11-14T22:13:20Z.*removed/);
  await assert.rejects(reader.readFile('qemu-server.conf.blob'), stale);
  assert.ok((await reader.readChunk(digest)).length > 0, 'chunks outlive their snapshot for a day');
  damageChunk(store.path, firstDigest(written), 'missing');
  await assert.rejects(reader.readChunk(digest), stale);
});

test('chunks are found in further directories, by prefix, loose, or in another datastore', async () => {
  using store = temporaryDatastore();
  using other = temporaryDatastore();
  const written = writeVm(store.path);
  const digest = firstDigest(written);
  const original = readFileSync(chunkPath(store.path, digest));
  const loose = join(other.path, 'loose');
  mkdirSync(loose);
  cpSync(join(store.path, '.chunks'), join(other.path, '.chunks'), { recursive: true });
  cpSync(chunkPath(store.path, digest), join(loose, digest));
  rmSync(join(store.path, '.chunks'), { recursive: true });

  for (const directory of [loose, join(other.path, '.chunks'), other.path]) {
    const reader = await openVm(store.path, [directory]);
    assert.deepEqual(await reader.readChunk(Buffer.from(digest, 'hex')), original);
  }
});

test('a marker or a damaged copy is passed over for a good copy elsewhere', async () => {
  using store = temporaryDatastore();
  using other = temporaryDatastore();
  const written = writeVm(store.path);
  cpSync(join(store.path, '.chunks'), join(other.path, '.chunks'), { recursive: true });
  const digest = firstDigest(written);
  const original = readFileSync(chunkPath(store.path, digest));
  for (const damage of ['empty', 'missing', 'bit-flip', 'truncated', 'wrong-magic'] as const) {
    writeChunkFile(store.path, digest, original);
    damageChunk(store.path, digest, damage);
    const reader = await openVm(store.path, [other.path]);
    assert.deepEqual(await reader.readChunk(Buffer.from(digest, 'hex')), original, damage);
  }
  // With no good copy the first one is given: it is for the reader of chunks to say what is wrong.
  const damaged = readFileSync(chunkPath(store.path, digest));
  writeChunkFile(other.path, digest, original.subarray(0, 20));
  const reader = await openVm(store.path, [other.path]);
  assert.deepEqual(await reader.readChunk(Buffer.from(digest, 'hex')), damaged);
});

test('a datastore without chunks lists with a warning, and says what is missing on a read', async () => {
  using store = temporaryDatastore();
  const digest = firstDigest(writeVm(store.path));
  rmSync(join(store.path, '.chunks'), { recursive: true });
  const warnings: string[] = [];
  const logger = (level: string, message: string) => warnings.push(`${level} ${message}`);
  await using repository = await openDatastore(store.path, { logger });
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /^warn .*not read: .*has no \.chunks/);
  assert.equal((await repository.listSnapshots(vm100)).length, 1);
  const reader = await repository.openSnapshot(vm100);
  await assert.rejects(reader.readChunk(Buffer.from(digest, 'hex')), isCode('chunk-missing'));
});

/** Runs `action` as nobody, since permissions mean nothing to root. */
async function asOrdinaryUser(action: () => Promise<void>): Promise<void> {
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    await action();
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
}

test('closed chunks are a clear refusal, and everything else stays readable', async () => {
  using store = temporaryDatastore();
  const digest = firstDigest(writeVm(store.path));
  const warnings: string[] = [];
  const logger = (_level: string, message: string) => warnings.push(message);
  chmodSync(store.path, 0o755);
  chmodSync(join(store.path, '.chunks'), 0o000);
  await asOrdinaryUser(async () => {
    await using repository = await openDatastore(store.path, { logger });
    assert.match(warnings.join(), /\.chunks: permission denied.*group/);
    assert.equal((await repository.describeSnapshot(vm100)).finished, true);
    const reader = await repository.openSnapshot(vm100);
    const denied = isCode('access-denied', new RegExp(`${digest}.*permission denied.*0750`));
    await assert.rejects(reader.readChunk(Buffer.from(digest, 'hex')), denied);
  });
  chmodSync(join(store.path, '.chunks'), 0o755);
});

test('a closed file or directory is a refusal, not an absence', async () => {
  using store = temporaryDatastore();
  const { directory } = writeVm(store.path);
  chmodSync(store.path, 0o755);
  chmodSync(join(directory, 'index.json.blob'), 0o000);
  chmodSync(join(store.path, 'vm/100'), 0o311);
  await asOrdinaryUser(async () => {
    await using repository = await openDatastore(store.path);
    await assert.rejects(repository.listSnapshots(vm100), isCode('access-denied'));
    await assert.rejects(
      repository.describeSnapshot(vm100),
      isCode('access-denied', /index\.json/),
    );
  });
  chmodSync(join(store.path, 'vm/100'), 0o755);
});
