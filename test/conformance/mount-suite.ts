/**
 * What every driver must do, tried through a real mount with the tools that users have. A driver's
 * limitations skip by name.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  access,
  chmod,
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  statfs,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { ErrorCode } from '../../src/errors.ts';
import type { Limitation } from '../../src/fuse/fuse-native/limitations.ts';
import {
  mountTestTree,
  type TestMount,
  temporaryDirectory,
  tool,
} from '../support/mount-fixture.ts';
import {
  bareNames,
  damagedRange,
  damagedSize,
  failingCodes,
  manyNames,
  noise,
  noiseImage,
  noiseSize,
  oddNames,
  sparseData,
  sparseSize,
  xattrsOfFile,
} from '../support/mount-tree.ts';
import { needs } from '../support/requirements.ts';
import type { ServeOptions } from '../support/serve-mount-tree.ts';
import { until } from '../support/until.ts';

export interface SuiteOptions {
  readonly driver: ServeOptions['driver'];
  readonly requirements: readonly string[];
  readonly limitations: readonly Limitation[];
}

/** From errno(3) of Linux. */
const expectedErrno: Partial<Record<ErrorCode, number>> = {
  corrupt: 5,
  'chunk-missing': 5,
  stale: 116,
  'key-missing': 126,
  'key-wrong': 129,
  'access-denied': 13,
  unreachable: 5,
  timeout: 110,
  failed: 5,
};

/** Lists a directory three ways: to the end, again after rewinddir, and from the middle by seekdir. */
const readThrice = `
opendir(my $d, $ARGV[0]) or die $!; my (@first, $middle, @tail);
while (defined(my $n = readdir $d)) { push @first, $n; $middle = telldir $d if @first == $ARGV[1] }
rewinddir $d; my @second = readdir $d;
seekdir $d, $middle; my @third = readdir $d;
my @rest = @first[$ARGV[1] .. $#first];
print "$_\\n" for scalar(@first), "@first" eq "@second" ? 1 : 0, "@rest" eq "@third" ? 1 : 0;
my %seen; $seen{$_}++ for @first; print scalar(keys %seen), "\\n";
`;

/** Prints the runs of data of a file, then the error of looking for more. */
const dataRuns = `
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY); at = 0
try:
    while True:
        start = os.lseek(fd, at, os.SEEK_DATA); at = os.lseek(fd, start, os.SEEK_HOLE); print(start, at)
except OSError as e: print(e.errno)
try: os.lseek(fd, os.fstat(fd).st_size, os.SEEK_HOLE)
except OSError as e: print(e.errno)
`;

/** Asks for an attribute with too little room; prints errno. */
const tooLittleRoom = `
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.getxattr(sys.argv[1].encode(), sys.argv[2].encode(), ctypes.create_string_buffer(1), 1); print(ctypes.get_errno())
libc.listxattr(sys.argv[1].encode(), ctypes.create_string_buffer(1), 1); print(ctypes.get_errno())
`;

export function mountSuite({ driver, requirements, limitations }: SuiteOptions): void {
  const skipAll = needs('fuse', 'root', ...requirements);
  const unless = (limitation: Limitation, ...names: readonly string[]): string | false =>
    limitations.includes(limitation) ? `${driver}: ${limitation}` : needs(...names);

  describe(`a mount by ${driver}`, { skip: skipAll, timeout: 120_000 }, () => {
    let mount: TestMount;
    before(async () => {
      mount = await mountTestTree({ driver });
    });
    after(async () => {
      await mount[Symbol.asyncDispose]();
    });
    const readsOf = async (): Promise<number> => (await mount.state()).counters.reads;

    test('shows size, owner, permissions, links and time of a file exactly', async () => {
      const file = await stat(mount.at('noise.img'), { bigint: true });
      assert.equal(file.size, BigInt(noiseSize));
      assert.equal(file.mode, 0o100644n);
      assert.deepEqual([file.uid, file.gid, file.nlink], [1000n, 1001n, 1n]);
      assert.equal(file.mtimeNs / 1_000_000_000n, 1_700_000_000n);
      assert.equal((await stat(mount.at('after-2038'))).mtime.getUTCFullYear(), 2100);
    });

    test('shows times to the nanosecond, before 1970 too', {
      skip: unless('exactTimes'),
    }, async () => {
      assert.equal(
        (await stat(mount.at('hello.txt'), { bigint: true })).mtimeNs,
        1_700_000_000_123_456_789n,
      );
      assert.equal(
        (await stat(mount.at('before-1970'), { bigint: true })).mtimeNs,
        -1_500_000_000n,
      );
    });

    test('counts the blocks of a file, so that du and tar --sparse keep its data', async () => {
      assert.equal((await stat(mount.at('noise.img'))).blocks, noiseSize / 512);
      const du = await tool('du', '-B1', mount.at('noise.img'));
      assert.match(du.stdout.toString(), new RegExp(`^${noiseSize}\\s`));
    });

    test('shows links, pipes, sockets and devices as what they are', async () => {
      assert.equal(await readlink(mount.at('link')), 'hello.txt');
      assert.equal(await readlink(mount.at('dangling')), '/nowhere/at all');
      assert.equal(await readFile(mount.at('link'), 'utf8'), 'hello, world\n');
      assert.ok((await lstat(mount.at('fifo'))).isFIFO());
      assert.ok((await lstat(mount.at('socket'))).isSocket());
      const devices = await tool('stat', '-c', '%F %t %T', mount.at('null'), mount.at('disk'));
      assert.equal(
        devices.stdout.toString(),
        'character special file 1 3\nblock special file 103 11170\n',
      );
    });

    test('shows both names of a hard link as one file', {
      skip: unless('inodeNumbers'),
    }, async () => {
      const [a, b] = await Promise.all([lstat(mount.at('hard-a')), lstat(mount.at('hard-b'))]);
      assert.equal(a.ino, b.ino);
      assert.equal(a.nlink, 2);
    });

    test('gives every byte of a file, and no more', async () => {
      const content = await readFile(mount.at('noise.img'));
      assert.ok(content.equals(noiseImage()));
      assert.equal((await readFile(mount.at('empty'))).length, 0);
      await using file = await open(mount.at('noise.img'));
      assert.equal((await readAt(file, noiseSize - 3, 10)).length, 3);
      assert.equal((await readAt(file, noiseSize + 10, 10)).length, 0);
    });

    test('gives the same bytes to readers that bypass the page cache', async () => {
      const args = [`if=${mount.at('noise.img')}`, 'bs=1M', 'iflag=direct'];
      const copy = await tool('dd', ...args);
      assert.equal(copy.status, 0, copy.stderr);
      assert.ok(copy.stdout.equals(noiseImage()));
    });

    test('lets qemu open an image', { skip: needs('qemu-img') }, async () => {
      await using directory = await temporaryDirectory();
      const copy = `${directory.path}/copy.img`;
      await writeFile(copy, noiseImage());
      const args = ['compare', '-f', 'raw', '-F', 'raw', mount.at('noise.img'), copy];
      const compare = await tool('qemu-img', ...args);
      assert.equal(compare.status, 0, compare.stderr);
    });

    test('lets tar copy files, links, devices and empty regions', {
      skip: needs('tar'),
    }, async () => {
      await using directory = await temporaryDirectory();
      const names = ['noise.img', 'sparse.img', 'link', 'null', 'hard-a', 'hard-b', 'bare'];
      const archive = `${directory.path}/archive.tar`;
      const packed = await tool('tar', '-C', mount.path, '-cSf', archive, ...names);
      assert.equal(packed.status, 0, packed.stderr);
      const compared = await tool('tar', '-C', mount.path, '-df', archive);
      assert.equal(compared.status, 0, compared.stdout.toString() + compared.stderr);
      const unpacked = await tool('tar', '-C', directory.path, '-xf', archive, 'noise.img');
      assert.equal(unpacked.status, 0, unpacked.stderr);
      assert.ok((await readFile(`${directory.path}/noise.img`)).equals(noiseImage()));
    });

    test('keeps what was read, so that a second reader asks nothing', async () => {
      await readFile(mount.at('hello.txt'));
      const before = await readsOf();
      assert.equal(await readFile(mount.at('hello.txt'), 'utf8'), 'hello, world\n');
      assert.equal(await readsOf(), before);
    });

    test('never reads content for names and attributes', async () => {
      const before = await mount.state();
      const found = await tool('find', mount.path, '-name', 'odd', '-prune', '-o', '-ls');
      assert.equal(found.status, 0, found.stderr);
      const later = await mount.state();
      assert.equal(later.counters.reads, before.counters.reads);
      assert.equal(later.counters.opened, before.counters.opened);
    });

    test('lists each of 5,000 names once, again after rewinddir, and on after seekdir', {
      skip: needs('perl'),
    }, async () => {
      const listing = await tool('perl', '-e', readThrice, mount.at('many'), '2500');
      assert.equal(listing.stdout.toString(), `${manyNames + 2}\n1\n1\n${manyNames + 2}\n`);
      assert.equal((await readdir(mount.at('many'))).length, manyNames);
      assert.equal((await readdir(mount.at('many'))).length, manyNames);
    });

    test('lists entries that come without their nodes', async () => {
      const listing = await tool('ls', '-l', mount.at('bare'));
      assert.equal(listing.stdout.toString().split('\n').length, bareNames + 2);
    });

    test('costs no lookup per name for ls -l', {
      skip: unless('listingWithAttributes'),
    }, async () => {
      const before = (await mount.state()).counters.lookups;
      const listing = await tool('ls', '-l', mount.at('errors'));
      assert.equal(listing.status, 0, listing.stderr);
      assert.equal((await mount.state()).counters.lookups, before);
    });

    test('lists names byte for byte', { skip: unless('byteNames') }, async () => {
      const names = await readdir(Buffer.from(mount.at('odd')), { encoding: 'buffer' });
      const sorted = (list: readonly Buffer[]) => list.map((name) => name.toString('hex')).sort();
      assert.deepEqual(sorted(names), sorted(oddNames));
      for (const name of oddNames) {
        const path = Buffer.concat([Buffer.from(`${mount.at('odd')}/`), name]);
        assert.ok((await readFile(path)).equals(name));
      }
    });

    test('keeps in mind that a name is not there', async () => {
      const missing = mount.at('many', '.Trash-1000');
      await assert.rejects(stat(missing), { code: 'ENOENT' });
      const before = (await mount.state()).counters.lookups;
      for (let i = 0; i < 5; i++) await assert.rejects(stat(missing), { code: 'ENOENT' });
      assert.ok((await mount.state()).counters.lookups - before <= 1);
    });

    test('refuses a name that is too long', async () => {
      await assert.rejects(stat(mount.at('x'.repeat(256))), { code: 'ENAMETOOLONG' });
    });

    test('shows what appears in a directory that may change', async () => {
      assert.deepEqual(await readdir(mount.at('changing')), []);
      await assert.rejects(stat(mount.at('changing', 'new-0')), { code: 'ENOENT' });
      await mount.command('grow');
      await until(
        'the new name is listed',
        async () => (await readdir(mount.at('changing'))).length === 1,
      );
      await until('the new name is found', () =>
        access(mount.at('changing', 'new-0')).then(
          () => true,
          () => false,
        ),
      );
    });

    test('gives extended attributes, their sizes, and none where there is none', {
      skip: needs('getfattr', 'python3'),
    }, async () => {
      const dump = await tool('getfattr', '-d', '-m', '-', '-e', 'hex', mount.at('xattrs'));
      const shown = dump.stdout.toString().trim().split('\n').slice(1).sort();
      const expected = xattrsOfFile.map(({ name, value }) =>
        value.length === 0 ? `${name}=0x` : `${name}=0x${value.toString('hex')}`,
      );
      assert.deepEqual(
        shown.map((line) => (line.endsWith('=""') ? line.replace('""', '0x') : line)),
        expected.sort(),
      );
      const none = await tool('getfattr', '-n', 'user.none', mount.at('xattrs'));
      assert.match(none.stderr, /No such attribute/);
      const bare = await tool('getfattr', '-d', '-m', '-', mount.at('hello.txt'));
      assert.deepEqual([bare.status, bare.stdout.length], [0, 0]);
      const cramped = await tool(
        'python3',
        '-c',
        tooLittleRoom,
        mount.at('xattrs'),
        'user.comment',
      );
      assert.equal(cramped.stdout.toString(), '34\n34\n');
    });

    test('shows access control lists', { skip: needs('getfacl') }, async () => {
      const acl = await tool('getfacl', '-cn', mount.at('xattrs'));
      assert.match(acl.stdout.toString(), /^user:1234:r--$/m);
    });

    test('has a size for df', async () => {
      const size = await statfs(mount.path);
      assert.equal(size.blocks * size.bsize, 1 << 30);
      assert.equal(size.bfree * size.bsize, (1 << 30) - (1 << 28));
      assert.equal(size.bavail * size.bsize, 1 << 29);
    });

    test('tells where a file has data', { skip: unless('holes', 'python3') }, async () => {
      const runs = await tool('python3', '-c', dataRuns, mount.at('sparse.img'));
      const expected = [...sparseData.map(([start, end]) => `${start} ${end}`), '6', '6', ''];
      assert.equal(runs.stdout.toString(), expected.join('\n'));
      const full = await tool('python3', '-c', dataRuns, mount.at('noise.img'));
      assert.equal(full.stdout.toString(), `0 ${noiseSize}\n6\n6\n`);
    });

    test('lets cp leave out empty regions unread', { skip: unless('holes') }, async () => {
      await using directory = await temporaryDirectory();
      const copy = `${directory.path}/copy`;
      const before = await readsOf();
      const copied = await tool('cp', mount.at('sparse.img'), copy);
      assert.equal(copied.status, 0, copied.stderr);
      assert.ok((await readsOf()) - before < 20);
      const content = await readFile(copy);
      assert.equal(content.length, sparseSize);
      assert.ok(content.equals(await readFile(mount.at('sparse.img'))));
    });

    test('leaves locks to the kernel, so that they work', { skip: needs('flock') }, async () => {
      for (const kind of ['-s', '-x']) {
        const lock = await tool('flock', kind, '-n', mount.at('noise.img'), 'true');
        assert.equal(lock.status, 0, lock.stderr);
      }
    });

    test('gives each failure its errno and tells the log', async () => {
      for (const code of failingCodes) {
        const expected = expectedErrno[code];
        assert.ok(expected);
        await assert.rejects(readFile(mount.at('errors', code)), { errno: -expected }, code);
      }
      const { log } = await mount.state();
      for (const code of failingCodes) {
        const lines = log.filter((line) => line.endsWith(`made to fail with ${code}`));
        assert.equal(lines.length, 1, code);
        assert.match(lines[0] ?? '', /^(error|warn|info) read: /);
      }
    });

    test('fails for the damaged bytes alone, with one line in the log', async () => {
      const [start, end] = damagedRange;
      const expected = noise(damagedSize);
      await using file = await open(mount.at('damaged.img'));
      assert.ok((await readAt(file, 0, start)).equals(expected.subarray(0, start)));
      assert.ok((await readAt(file, end, damagedSize - end)).equals(expected.subarray(end)));
      for (let i = 0; i < 3; i++) {
        await assert.rejects(readAt(file, start, end - start), { code: 'EIO' });
      }
      const { log } = await mount.state();
      assert.equal(log.filter((line) => line.includes('digest does not match')).length, 1);
    });

    test('refuses every write', async () => {
      const attempts = [
        () => writeFile(mount.at('hello.txt'), 'x'),
        () => writeFile(mount.at('new'), 'x'),
        () => mkdir(mount.at('new')),
        () => rm(mount.at('hello.txt')),
        () => rename(mount.at('hello.txt'), mount.at('new')),
        () => chmod(mount.at('hello.txt'), 0o600),
        () => symlink('x', mount.at('new')),
      ];
      for (const attempt of attempts) await assert.rejects(attempt, { code: 'EROFS' });
    });

    for (const name of ['hanging', 'deaf']) {
      test(`lets a program go that is killed while it waits (${name} file)`, {
        skip: unless('interrupts'),
      }, async () => {
        const before = await mount.state();
        const args = [`if=${mount.at(name)}`, 'of=/dev/null', 'bs=4096', 'count=1', 'iflag=direct'];
        const reader = spawn('dd', args, { stdio: 'ignore' });
        await until('it reads', async () => (await readsOf()) > before.counters.reads);
        await killed(reader);
        await until(
          'that is cancelled',
          async () => (await mount.state()).counters.aborted > before.counters.aborted,
        );
      });
    }

    test('lets a program go that is killed while it looks a name up', {
      skip: unless('interrupts'),
    }, async () => {
      const before = await mount.state();
      const reader = spawn('cat', [mount.at('hanging-directory', 'x')], { stdio: 'ignore' });
      await delay(300);
      assert.equal(reader.exitCode, null);
      await killed(reader);
      await until(
        'that is cancelled',
        async () => (await mount.state()).counters.aborted > before.counters.aborted,
      );
    });

    test('closes every file that was opened', async () => {
      await until('all are closed', async () => {
        const { counters } = await mount.state();
        return counters.opened === counters.closed;
      });
    });
  });
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}

async function killed(child: ReturnType<typeof spawn>): Promise<void> {
  const exit = once(child, 'exit', { signal: AbortSignal.timeout(5000) });
  child.kill('SIGKILL');
  await exit;
}
