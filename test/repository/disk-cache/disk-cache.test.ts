/** What is kept is given again without asking, and never trusted: whatever happens to the files. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { test } from 'node:test';
import { PbsfsError } from '../../../src/errors.ts';
import { CryptConfig } from '../../../src/formats/crypt-config.ts';
import { withRetry } from '../../../src/repository/with-retry.ts';
import { vectorKey } from '../../support/encode-formats.ts';
import { expectError } from '../../support/expect-error.ts';
import { mountTmpfs } from '../../support/mount-tmpfs.ts';
import { needs } from '../../support/requirements.ts';
import { temporaryDirectory } from '../../transfer/support/temporary-directory.ts';
import { chunkSize, fileOf, keptIn, openCached, randomArchive } from './cached-archive.ts';

test('a second reader gets every chunk without asking, also another process later', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(5);
  {
    await using first = await openCached(directory.path, archive);
    assert.ok((await first.readAll()).equals(archive.data));
    assert.equal(archive.reads.length, 5);
    assert.ok((await first.readAll()).equals(archive.data));
  }
  await using later = await openCached(directory.path, archive);
  archive.stored.clear();
  assert.ok((await later.readAll()).equals(archive.data));
  assert.equal(archive.reads.length, 5);
  assert.deepEqual(later.log, []);
});

test('chunks are kept as they are stored, for their owner alone', async () => {
  using directory = temporaryDirectory();
  const crypt = new CryptConfig(vectorKey);
  const archive = randomArchive(2, crypt);
  const path = directory.join('new', 'cache');
  await using cached = await openCached(path, archive, { crypt });
  assert.ok((await cached.readAll()).equals(archive.data));
  assert.deepEqual(keptIn(path), new Set(archive.stored.keys()));
  for (const [digest, raw] of archive.stored) {
    assert.ok(readFileSync(fileOf(path, digest)).equals(raw));
    assert.equal(statSync(fileOf(path, digest)).mode & 0o777, 0o600);
    assert.equal(statSync(`${path}/${digest.slice(0, 2)}`).mode & 0o777, 0o700);
  }
  assert.equal(statSync(path).mode & 0o777, 0o700);
});

type Damage = (file: string, other: string) => void;
const damages: Readonly<Record<string, Damage>> = {
  'a flipped bit': (file) => {
    const raw = readFileSync(file);
    raw.writeUInt8(raw.readUInt8(raw.length - 1) ^ 1, raw.length - 1);
    writeFileSync(file, raw);
  },
  'a flipped bit in the magic': (file) => {
    const raw = readFileSync(file);
    raw.writeUInt8(raw.readUInt8(0) ^ 1, 0);
    writeFileSync(file, raw);
  },
  'an end cut off': (file) => truncateSync(file, 5000),
  'nothing left, as after a power failure': (file) => truncateSync(file, 0),
  'a whole chunk of another digest': (file, other) => copyFileSync(other, file),
  'a file far too long': (file) => truncateSync(file, 2 ** 40),
  'a link to itself': (file) => {
    rmSync(file);
    symlinkSync(file, file);
  },
  'a link to somewhere else': (file) => {
    renameSync(file, `${file}.moved`);
    symlinkSync(`${file}.moved`, file);
  },
};

for (const [what, damage] of Object.entries(damages)) {
  test(`${what} is fetched anew, and kept anew`, async () => {
    using directory = temporaryDirectory();
    const archive = randomArchive(2);
    await using cached = await openCached(directory.path, archive);
    await cached.readAll();
    damage(fileOf(directory.path, archive.digest(0)), fileOf(directory.path, archive.digest(1)));
    assert.ok((await cached.readAll()).equals(archive.data));
    assert.deepEqual(archive.reads.slice(2), [archive.digest(0)]);
    assert.ok((await cached.readAll()).equals(archive.data));
    assert.equal(archive.reads.length, 3);
    assert.deepEqual(cached.log, []);
  });
}

test('a damaged chunk is fetched anew through a wrapper too', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(1);
  await using cached = await openCached(directory.path, archive, { wrap: withRetry });
  await cached.readAll();
  truncateSync(fileOf(directory.path, archive.digest(0)), 100);
  assert.ok((await cached.readAll()).equals(archive.data));
  assert.equal(archive.reads.length, 2);
});

test('a directory in the place of a chunk is told once, and reading goes on', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(2);
  await using cached = await openCached(directory.path, archive);
  mkdirSync(fileOf(directory.path, archive.digest(0)), { recursive: true });
  assert.ok((await cached.readAll()).equals(archive.data));
  assert.ok((await cached.readAll()).equals(archive.data));
  assert.equal(cached.log.length, 1);
});

test('what a repository gives wrong is not kept, and not asked for twice', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(2);
  await using cached = await openCached(directory.path, archive);
  const right = archive.stored.get(archive.digest(0));
  assert.ok(right);
  archive.stored.set(archive.digest(0), archive.stored.get(archive.digest(1)) ?? right);
  await assert.rejects(cached.read(0), expectError('corrupt', /other data/));
  assert.deepEqual([...keptIn(directory.path)], []);
  assert.equal(archive.reads.length, 1);
  archive.stored.set(archive.digest(0), right);
  assert.ok((await cached.read(0)).equals(archive.data.subarray(0, chunkSize)));
});

test('a chunk that is damaged here and missing there is missing', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(1);
  await using cached = await openCached(directory.path, archive);
  await cached.readAll();
  truncateSync(fileOf(directory.path, archive.digest(0)), 100);
  archive.stored.clear();
  await assert.rejects(cached.read(0), expectError('chunk-missing'));
});

test('a chunk kept from one repository cannot be another chunk in a second one', async () => {
  using directory = temporaryDirectory();
  const [honest, lying] = [randomArchive(1), randomArchive(1)];
  const digest = honest.index.digest(0);
  await using first = await openCached(directory.path, lying);
  lying.stored.set(honest.digest(0), lying.stored.get(lying.digest(0)) ?? Buffer.alloc(0));
  // A reader that does not look at the digest: the lie is kept.
  await first.reader.readChunk(digest);
  assert.ok(keptIn(directory.path).has(honest.digest(0)));
  await using second = await openCached(directory.path, honest);
  assert.ok((await second.readAll()).equals(honest.data));
  assert.deepEqual(honest.reads, [honest.digest(0)]);
});

test('reading goes on when the directory is emptied or removed meanwhile', async () => {
  using directory = temporaryDirectory();
  const path = directory.join('cache');
  const archive = randomArchive(3);
  await using cached = await openCached(path, archive);
  await cached.readAll();
  rmSync(path, { recursive: true });
  assert.ok((await cached.readAll()).equals(archive.data));
  assert.deepEqual(keptIn(path), new Set(archive.stored.keys()));
  await using again = await openCached(path, archive);
  archive.reads.length = 0;
  assert.ok((await again.readAll()).equals(archive.data));
  assert.deepEqual(archive.reads, []);
  assert.deepEqual(cached.log, []);
});

test('a read marks its chunk as used', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(1);
  await using cached = await openCached(directory.path, archive);
  await cached.read(0);
  const file = fileOf(directory.path, archive.digest(0));
  utimesSync(file, 1000, 1000);
  await cached.read(0);
  assert.ok(Math.abs(statSync(file).mtimeMs - Date.now()) < 60_000);
});

test('an interrupted read is interrupted, and asks nobody', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(1);
  await using cached = await openCached(directory.path, archive);
  const digest = archive.index.digest(0);
  await assert.rejects(
    cached.reader.readChunk(digest, AbortSignal.abort()),
    expectError('aborted'),
  );
  assert.deepEqual(archive.reads, []);
});

test('a full disk is told once, and reading goes on', { skip: needs('root') }, async () => {
  await using disk = await mountTmpfs({ bytes: 128 * 1024 });
  const archive = randomArchive(40);
  await using cached = await openCached(disk.path, archive);
  assert.ok((await cached.readAll()).equals(archive.data));
  assert.ok((await cached.readAll()).equals(archive.data));
  assert.equal(cached.log.length, 1);
  assert.match(cached.log[0] ?? '', /^warn .*ENOSPC/);
  const kept = keptIn(disk.path).size;
  assert.ok(kept > 0 && kept < 40, `${kept} chunks are kept`);
  assert.equal(archive.reads.length, 40 + 40 - kept);
});

test('a directory that is read-only gives what it has, and damaged files in it harm nobody', {
  skip: needs('root'),
}, async () => {
  await using disk = await mountTmpfs({ bytes: 2 ** 20 });
  const archive = randomArchive(4);
  {
    await using filled = await openCached(disk.path, archive);
    for (const i of [0, 1, 2]) await filled.read(i);
  }
  truncateSync(fileOf(disk.path, archive.digest(1)), 100);
  await disk.remount('ro');
  archive.reads.length = 0;
  await using cached = await openCached(disk.path, archive);
  assert.ok((await cached.readAll()).equals(archive.data));
  assert.ok((await cached.readAll()).equals(archive.data));
  const [damaged, absent] = [archive.digest(1), archive.digest(3)];
  assert.deepEqual(archive.reads, [damaged, absent, damaged, absent]);
  assert.equal(cached.log.length, 1);
  assert.match(cached.log[0] ?? '', /^warn .*EROFS/);
});

test('a directory that cannot be made or written is told once', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(3);
  // Not even root may make a directory in /proc.
  await using cached = await openCached('/proc/pbsfs-cache', archive);
  assert.ok((await cached.readAll()).equals(archive.data));
  assert.equal(cached.log.length, 1);
  assert.match(cached.log[0] ?? '', /^warn .*\/proc\/pbsfs-cache/);
  if (process.getuid?.() === 0) return;
  const path = directory.join('closed');
  mkdirSync(path, { mode: 0o500 });
  await using closed = await openCached(path, archive);
  assert.ok((await closed.readAll()).equals(archive.data));
  assert.equal(closed.log.length, 1);
  chmodSync(path, 0o700);
});

test('what was never ours is refused, and left as it is', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(1);
  writeFileSync(directory.join('letter.txt'), 'dear');
  const refused = (path: string): Promise<void> =>
    assert.rejects(openCached(path, archive), (error) => {
      assert.ok(error instanceof PbsfsError);
      assert.equal(error.code, 'usage');
      assert.equal(error.context.path, path);
      return true;
    });
  await refused(directory.path);
  await refused(directory.join('letter.txt'));
  await refused(directory.join('letter.txt', 'below'));
  // A cache of another program.
  writeFileSync(
    directory.join('CACHEDIR.TAG'),
    'Signature: 8a477f597d28d172789f06886806bc55\n# another program\n',
  );
  rmSync(directory.join('letter.txt'));
  await refused(directory.path);
});

test('a start that was killed before the tag was written is taken up', async () => {
  using directory = temporaryDirectory();
  const archive = randomArchive(1);
  const left = 'CACHEDIR.TAG.0e4fdc07-43fd-4ab1-96c0-0ba5a44e5d5c.tmp';
  writeFileSync(directory.join(left), 'Signa');
  await using cached = await openCached(directory.path, archive);
  assert.ok((await cached.readAll()).equals(archive.data));
  assert.match(
    readFileSync(directory.join('CACHEDIR.TAG'), 'utf8'),
    /^Signature: 8a477f597d28d172789f06886806bc55\n/,
  );
});
