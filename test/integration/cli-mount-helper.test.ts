/** Called by the real mount(8), with a helper in /sbin for as long as the test runs. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { chmod, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { isMounted, temporaryMountPoint } from '../cli/mounted.ts';
import { program } from '../cli/run-cli.ts';
import { temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';
import { needs } from '../support/requirements.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const helper = '/sbin/mount.fuse.pbsfs';
const reason = needs('fuse', 'root', 'mount') || (existsSync(helper) && `${helper} is there`);
const folder = mkdtempSync(join(tmpdir(), 'pbsfs-helper-'));
const store = temporaryDatastore();

before(() => {
  writeSnapshot(store.path, {
    group: 'vm/100',
    time: 1_700_000_000,
    blobs: { 'qemu-server.conf': Buffer.from('cores: 2\n') },
  });
});
after(async () => {
  store[Symbol.dispose]();
  await rm(folder, { recursive: true });
});

interface Result {
  readonly code: number;
  readonly stderr: string;
}

async function mount(...args: string[]): Promise<Result> {
  try {
    const { stderr } = await run('mount', args);
    return { code: 0, stderr };
  } catch (error) {
    const { code, stderr } = error as Result;
    return { code, stderr };
  }
}

/** The process in the background ends after the mount has gone. */
async function unmount(path: string): Promise<void> {
  await run('umount', [path]);
  await until('no process serves it', async () => {
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
    const lines = pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''));
    return !(await Promise.all(lines)).some((line) => line.split('\0').includes(path));
  });
}

describe('mount -t fuse.pbsfs', { skip: reason, timeout: 120_000 }, () => {
  // A link needs a Node in /usr/bin, since mount(8) removes PATH: a script works everywhere.
  before(async () => {
    await writeFile(helper, `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`);
    await chmod(helper, 0o755);
  });
  after(async () => await rm(helper));

  test('mounts in the background with the generic options of fstab', async () => {
    await using point = await temporaryMountPoint();
    const options = 'ro,nofail,_netdev,x-systemd.automount,allow_other,noauto,owner-root';
    const { code, stderr } = await mount('-t', 'fuse.pbsfs', '-o', options, store.path, point.path);
    assert.equal(stderr, '');
    assert.equal(code, 0);
    const config = join(point.path, 'vm/100/latest/qemu-server.conf');
    assert.equal(await readFile(config, 'utf8'), 'cores: 2\n');
    await unmount(point.path);
  });

  test('mounts a line of fstab, spaces and all', async () => {
    await using point = await temporaryMountPoint();
    const table = join(folder, 'fstab');
    const directory = point.path.replaceAll(' ', '\\040');
    const options = 'ro,user,nofail,time-format=%Y\\040%m%d%H%M%S';
    await writeFile(table, `${store.path} ${directory} fuse.pbsfs ${options} 0 0\n`);
    assert.deepEqual(await mount('-T', table, point.path), { code: 0, stderr: '' });
    assert.deepEqual(await readdir(join(point.path, 'vm/100')), ['2023 1114221320', 'latest']);
    await unmount(point.path);
  });

  test('passes on why there is no mount', async () => {
    await using point = await temporaryMountPoint();
    const cases: readonly (readonly [args: readonly string[], code: number, why: RegExp])[] = [
      [['-o', 'ro,alow_other', store.path], 2, /^pbsfs: mount: unknown mount option 'alow_other'/],
      [['-o', 'remount', store.path], 1, /^pbsfs: mount: .*remount/],
      [['/nonexistent'], 3, /^pbsfs: mount: \/nonexistent: does not exist/],
    ];
    for (const [args, code, why] of cases) {
      const result = await mount('-t', 'fuse.pbsfs', ...args, point.path);
      assert.equal(result.code, code);
      assert.match(result.stderr, why);
      assert.equal(await isMounted(point.path), false);
    }
  });

  test('mount -f checks and mounts nothing', async () => {
    await using point = await temporaryMountPoint();
    const { code } = await mount('-f', '-t', 'fuse.pbsfs', store.path, point.path);
    assert.equal(code, 0);
    assert.equal(await isMounted(point.path), false);
  });

  test('mounts where fuse3 has opened the device and dropped privileges', {
    skip: needs('mount.fuse3'),
  }, async () => {
    await using point = await temporaryMountPoint();
    const launcher = join(folder, 'pbsfs');
    await symlink(helper, launcher);
    await run('/sbin/mount.fuse3', [
      `${launcher}#${store.path}`,
      point.path,
      '-o',
      'ro,drop_privileges',
    ]);
    assert.deepEqual(await readdir(point.path), ['vm']);
    await run('umount', [point.path]);
  });
});
