/** What only the kernel driver can do, or has to. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { runProgram } from '../../../src/fuse/system-program.ts';
import { mountTestTree, temporaryDirectory, tool } from '../../support/mount-fixture.ts';
import { noiseImage } from '../../support/mount-tree.ts';
import { needs } from '../../support/requirements.ts';
import { until } from '../../support/until.ts';

const skip = needs('fuse', 'root');
const timeout = 60_000;

test('lets go of nodes when the kernel does', { skip, timeout }, async () => {
  await using mount = await mountTestTree();
  assert.equal((await tool('ls', '-lR', mount.at('bare'), mount.at('many'))).status, 0);
  assert.ok((await mount.state()).knownInodes >= 5000);
  // Remounting drops the names that the kernel keeps for this mount.
  const remounted = await tool('mount', '-i', '-o', 'remount,ro', mount.path);
  assert.equal(remounted.status, 0, remounted.stderr);
  await until('inodes are forgotten', async () => (await mount.state()).knownInodes < 10);
});

test('serves without koffi, on threads', { skip, timeout }, async () => {
  await using mount = await mountTestTree({ driver: 'kernel-on-threads' });
  assert.ok((await readFile(mount.at('noise.img'))).equals(noiseImage()));
  assert.equal((await readdir(mount.at('many'))).length, 5000);
  assert.equal(await mount.command('unmount'), 'unmounted');
  assert.equal(await mount.ended(), 0);
});

test('ends on threads too while somebody stands in the mount', { skip, timeout }, async () => {
  await using mount = await mountTestTree({ driver: 'kernel-on-threads' });
  const holder = spawn('sleep', ['60'], { cwd: mount.path, stdio: 'ignore' });
  try {
    await once(holder, 'spawn');
    assert.equal(await mount.command('unmount'), 'busy');
    assert.equal(await mount.command('unmount-lazy'), 'unmounted');
    assert.equal(await mount.ended(), 0);
  } finally {
    holder.kill();
  }
});

test('serves a descriptor that was mounted by its parent', { skip, timeout }, async () => {
  await using directory = await temporaryDirectory();
  const mountPoint = join(directory.path, 'mnt');
  await mkdir(mountPoint);
  const device = openSync('/dev/fuse', 'r+');
  const options = 'fd=3,rootmode=40000,user_id=0,group_id=0,ro';
  const args = ['-i', '-t', 'fuse.pbsfs', '-o', options, 'parent', mountPoint];
  const mounted = await runProgram('/bin/mount', args, { descriptor: device });
  assert.equal(mounted.status, 0, mounted.message);
  await using mount = await mountTestTree({ mountPoint: '/dev/fd/4', descriptor: device });
  closeSync(device);
  assert.equal(await readFile(join(mountPoint, 'hello.txt'), 'utf8'), 'hello, world\n');
  // It has no right to unmount, so it lets go of the descriptor.
  assert.equal(await mount.command('unmount'), 'unmounted');
  assert.equal(await mount.ended(), 0);
  await assert.rejects(readdir(mountPoint), { code: 'ENOTCONN' });
});

test('reads ahead as far as one request goes', { skip, timeout }, async () => {
  await using mount = await mountTestTree();
  const { stdout } = await tool('findmnt', '-n', '-o', 'MAJ:MIN', mount.path);
  const setting = `/sys/class/bdi/${stdout.toString().trim()}/read_ahead_kb`;
  assert.equal(await readFile(setting, 'utf8'), '1024\n');
});

test('reads what sixteen readers want at once, each right', { skip, timeout }, async () => {
  await using mount = await mountTestTree();
  const copies = Array.from({ length: 16 }, () =>
    tool('dd', `if=${mount.at('noise.img')}`, 'bs=1M', 'iflag=direct'),
  );
  for (const { stdout } of await Promise.all(copies)) assert.ok(stdout.equals(noiseImage()));
});

/** An automounter that never mounts: a program that opens its directory waits until it ends. */
const automounter = `
mkdir "$1/auto"; mkfifo "$1/pipe"; exec 9<>"$1/pipe"
mount -i -n -t autofs -o fd=9,pgrp=$$,minproto=5,maxproto=5,direct systemd-1 "$1/auto" && echo ready
read line; umount -l "$1/auto"`;

test('mounts where systemd waits for the mount, without waiting for it in turn', {
  skip:
    skip || (readFileSync('/proc/filesystems', 'utf8').includes('autofs') ? false : 'no autofs'),
  timeout,
}, async () => {
  await using directory = await temporaryDirectory();
  const daemon = spawn('sh', ['-c', automounter, 'sh', directory.path], {
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  try {
    const [said] = await once(daemon.stdout, 'data', { signal: AbortSignal.timeout(5000) });
    assert.equal(String(said), 'ready\n');
    await using mount = await mountTestTree({ mountPoint: join(directory.path, 'auto') });
    assert.equal(await readFile(mount.at('hello.txt'), 'utf8'), 'hello, world\n');
    assert.equal(await mount.command('unmount'), 'unmounted');
  } finally {
    const exit = once(daemon, 'exit');
    daemon.stdin.end('end\n');
    await exit;
  }
});
