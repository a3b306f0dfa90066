/** The life of a mount as users and scripts see it: the command line in a child process, real mounts. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { isMounted, startMount, temporaryMountPoint } from '../cli/mounted.ts';
import { cleanEnvironment, runCli } from '../cli/run-cli.ts';
import { damageChunk, temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';
import { goldenPassphrase, goldenPath, goldenStore } from '../support/golden.ts';
import { needs } from '../support/requirements.ts';
import { until } from '../support/until.ts';

const isRoot = process.getuid?.() === 0;
const skipMounts = needs('fuse', ...(isRoot ? [] : ['fusermount3', 'koffi']));
const options = { skip: skipMounts, timeout: 120_000 };
const chunk = 4 * 1024 * 1024;
const disk = randomBytes(chunk + 512);
const store = temporaryDatastore();
const folder = mkdtempSync(join(tmpdir(), 'pbsfs-cli-mount-'));
const image = 'vm/100/latest/drive-scsi0.img';
const brokenImage = 'vm/101/latest/drive-scsi0.img';

before(() => {
  const time = 1_700_000_000;
  writeSnapshot(store.path, {
    group: 'vm/100',
    time,
    images: { 'drive-scsi0.img': disk },
    blobs: { 'qemu-server.conf': Buffer.from('cores: 2\n') },
  });
  const broken = writeSnapshot(store.path, {
    group: 'vm/101',
    time,
    images: { 'drive-scsi0.img': randomBytes(2 * chunk) },
  });
  damageChunk(store.path, broken.chunks('drive-scsi0.img')[1]?.digest ?? '', 'bit-flip');
});
after(async () => {
  store[Symbol.dispose]();
  await rm(folder, { recursive: true });
});

describe('a mount in the foreground', options, () => {
  test('says the ready line when it answers, and nothing else', async () => {
    await using point = await temporaryMountPoint();
    await using mounted = await startMount([store.path, point.path]);
    assert.equal(mounted.stdout, `mounted ${store.path} at ${point.path}\n`);
    assert.ok((await readFile(join(point.path, image))).equals(disk));
    assert.equal(await mounted.stop('SIGINT'), 0);
    assert.equal(await isMounted(point.path), false);
    assert.equal(mounted.stdout, `mounted ${store.path} at ${point.path}\n`);
    assert.equal(mounted.stderr, '');
  });

  for (const signal of ['SIGTERM', 'SIGHUP'] as const) {
    test(`ends by ${signal} with exit 0 and no mount left`, async () => {
      await using point = await temporaryMountPoint();
      await using mounted = await startMount([store.path, point.path]);
      assert.equal(await mounted.stop(signal), 0);
      assert.equal(await isMounted(point.path), false);
    });
  }

  test('ends with exit 0 when somebody unmounts it', async () => {
    await using point = await temporaryMountPoint();
    await using mounted = await startMount(['-r', store.path, point.path]);
    const { code } = await runCli(['unmount', point.path]);
    assert.equal(code, 0);
    assert.equal(await mounted.ended, 0);
    assert.equal(mounted.stderr, '');
  });

  test('is detached where it is in use, after a line that says who uses it', async () => {
    await using point = await temporaryMountPoint();
    await using mounted = await startMount([store.path, point.path]);
    const holder = spawn('sleep', ['60'], { cwd: join(point.path, 'vm'), stdio: 'ignore' });
    try {
      await once(holder, 'spawn');
      assert.equal(await mounted.stop('SIGINT'), 0);
      assert.match(mounted.stderr, new RegExp(`is in use by .*sleep \\(pid ${holder.pid}\\)`));
      assert.equal(await isMounted(point.path), false);
    } finally {
      holder.kill();
    }
  });

  test('killed hard leaves a dead mount, which the next one clears', async () => {
    await using point = await temporaryMountPoint();
    await using dead = await startMount([store.path, point.path]);
    await dead.stop('SIGKILL');
    await assert.rejects(readdir(point.path), { code: 'ENOTCONN' });
    await using mounted = await startMount([store.path, point.path]);
    assert.deepEqual(await readdir(point.path), ['vm']);
    assert.equal(await mounted.stop('SIGINT'), 0);
  });

  test('shows owner, permissions, names and source as asked for', async () => {
    await using point = await temporaryMountPoint();
    const flags = ['-o', 'uid=1234,gid=77', '-o', 'umask=077,time-format=%Y%m%d-%H%M%S'];
    const more = ['-o', 'fsname=my backups,noatime,x-systemd.automount'];
    await using mounted = await startMount([...flags, ...more, store.path, point.path]);
    assert.deepEqual(await readdir(join(point.path, 'vm/100')), ['20231114-221320', 'latest']);
    const { uid, gid, mode } = await stat(join(point.path, image));
    assert.deepEqual([uid, gid, mode & 0o777], [1234, 77, 0o400]);
    assert.match(await readFile('/proc/self/mounts', 'utf8'), /^my\\040backups /m);
    assert.equal(await mounted.stop('SIGINT'), 0);
  });

  test('answers EIO for a bad chunk alone, with one line, and ends with 0', async () => {
    await using point = await temporaryMountPoint();
    await using mounted = await startMount([store.path, point.path]);
    await assert.rejects(readFile(join(point.path, brokenImage)), { code: 'EIO' });
    assert.ok((await readFile(join(point.path, image))).equals(disk));
    assert.equal(await mounted.stop('SIGINT'), 0);
    assert.match(
      mounted.stderr,
      /^pbsfs: error: .*vm\/101\/.*offset 4194304.*chunk [0-9a-f]{64}.*\n$/,
    );
  });

  test('--on-error zero warns at the start, gives zeros, and ends with 6', async () => {
    await using point = await temporaryMountPoint();
    const args = ['--on-error', 'zero', store.path, point.path];
    await using mounted = await startMount(args);
    assert.match(mounted.stderr, /^pbsfs: warning: .*zeros/);
    const bytes = await readFile(join(point.path, brokenImage));
    assert.ok(bytes.subarray(chunk).equals(Buffer.alloc(chunk)));
    assert.equal(await mounted.stop('SIGINT'), 6);
    assert.match(mounted.stderr, /read as zeros: vm\/101\/.*at offset 4194304/);
  });

  test('tells systemd when it is ready and when it stops', {
    skip: skipMounts || needs('perl', 'systemd-notify'),
  }, async () => {
    await using point = await temporaryMountPoint();
    const socket = join(folder, 'notify');
    // Node has no datagram sockets of this kind.
    const script = `use Socket; socket(S, PF_UNIX, SOCK_DGRAM, 0); bind(S, sockaddr_un($ARGV[0]));
        $| = 1; while (defined recv(S, $b, 4096, 0)) { print "$b\\n" }`;
    const receiver = spawn('perl', ['-e', script, socket]);
    let received = '';
    receiver.stdout.on('data', (part: Buffer) => {
      received += part.toString();
    });
    const hasReceived = (text: string) => async () => received.includes(text);
    try {
      await until('the socket is there', async () =>
        stat(socket).then(
          () => true,
          () => false,
        ),
      );
      await using mounted = await startMount([store.path, point.path], { NOTIFY_SOCKET: socket });
      await until('READY=1 is sent', hasReceived('READY=1'));
      assert.equal(received.includes('STOPPING=1'), false);
      await mounted.stop('SIGTERM');
      await until('STOPPING=1 is sent', hasReceived('STOPPING=1'));
    } finally {
      receiver.kill();
    }
  });
});

describe('a mount in the background', options, () => {
  test('returns when the mount answers, logs to its file and goes with umount', async () => {
    await using point = await temporaryMountPoint();
    const log = join(folder, 'log');
    const args = ['mount', '--daemon', '--log-file', log, store.path, point.path];
    const { code, stdout, stderr } = await runCli(args);
    assert.equal(stderr, '');
    assert.equal(stdout.length, 0);
    assert.equal(code, 0);
    assert.ok((await readFile(join(point.path, image))).equals(disk));
    await assert.rejects(readFile(join(point.path, brokenImage)), { code: 'EIO' });
    assert.match(await readFile(log, 'utf8'), /^\S+Z error .*vm\/101\/.*offset 4194304/);
    assert.equal((await runCli(['umount', point.path])).code, 0);
    assert.equal(await isMounted(point.path), false);
  });

  test('names the reason of a failure and ends with its exit code', async () => {
    await using point = await temporaryMountPoint();
    const { code, stderr } = await runCli(['mount', '--daemon', '/nonexistent', point.path]);
    assert.equal(code, 3);
    assert.equal(stderr, 'pbsfs: mount: /nonexistent: does not exist\n');
    assert.equal(await isMounted(point.path), false);
  });

  test('takes a passphrase from a descriptor', {
    skip: skipMounts || needs('golden'),
  }, async () => {
    await using point = await temporaryMountPoint();
    const secret = join(folder, 'secret');
    await writeFile(secret, `${goldenPassphrase}\n`);
    const key = goldenPath('keys/scrypt.json');
    const shell = spawn(
      'bash',
      [
        '-c',
        'exec "$0" "$@" 7<"$SECRET"',
        process.execPath,
        'bin/pbsfs.js',
        'mount',
        '--daemon',
        '--keyfile',
        key,
        goldenStore,
        point.path,
      ],
      { env: cleanEnvironment({ SECRET: secret, PBS_ENCRYPTION_PASSWORD_FD: '7' }) },
    );
    assert.equal((await once(shell, 'close'))[0], 0);
    const encrypted = join(point.path, 'vm/200/2023-11-15T22:13:20Z/qemu-server.conf');
    assert.match(await readFile(encrypted, 'utf8'), /^cores: 2$/m);
    assert.equal((await runCli(['umount', point.path])).code, 0);
  });
});

describe('before anything is mounted', options, () => {
  const cases: readonly (readonly [
    what: string,
    prepare: () => Promise<string>,
    number,
    RegExp,
  ])[] = [
    ['a mount point that is missing', async () => join(folder, 'nope'), 3, /does not exist/],
    [
      'a mount point that is a file',
      async () => {
        await writeFile(join(folder, 'file'), '');
        return join(folder, 'file');
      },
      3,
      /not a directory/,
    ],
    [
      'a mount point that is not empty',
      async () => {
        await mkdir(join(folder, 'full/inner'), { recursive: true });
        return join(folder, 'full');
      },
      2,
      /not empty/,
    ],
    ['a mount point in the datastore', async () => join(store.path, 'vm'), 2, /within each other/],
    ['a mount point above the datastore', async () => tmpdir(), 2, /within each other/],
  ];
  for (const [what, prepare, exitCode, why] of cases) {
    test(`${what} is refused`, async () => {
      const path = await prepare();
      const { code, stdout, stderr } = await runCli(['mount', store.path, path]);
      assert.equal(code, exitCode, stderr);
      assert.match(stderr, why);
      assert.equal(stderr.split('\n').length, 2);
      assert.equal(stdout.length, 0);
      assert.equal(await isMounted(path), false);
    });
  }

  test('a directory that shows a mount already is refused, and the mount stays', async () => {
    await using point = await temporaryMountPoint();
    await using mounted = await startMount([store.path, point.path]);
    const { code, stderr } = await runCli(['mount', store.path, point.path]);
    assert.equal(code, 2);
    assert.match(stderr, /is mounted here already/);
    assert.deepEqual(await readdir(point.path), ['vm']);
    assert.equal(await mounted.stop('SIGINT'), 0);
  });

  test('umount of what is no mount of ours is an error', async () => {
    const { code, stderr } = await runCli(['umount', folder]);
    assert.equal(code, 3);
    assert.match(stderr, /nothing is mounted here/);
  });
});
