import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { formatHolders } from '../../src/fuse/mount-holders.ts';
import { unmountPath } from '../../src/fuse/unmount.ts';
import { mountsAt, mountTestTree, temporaryDirectory, tool } from '../support/mount-fixture.ts';
import { needs } from '../support/requirements.ts';

const skip = needs('fuse', 'root');
const timeout = 60_000;

test('unmounts a mount of ours', { skip, timeout }, async () => {
  await using mount = await mountTestTree();
  assert.deepEqual(await unmountPath(mount.path), { result: 'unmounted', holders: [] });
  assert.equal(await mount.ended(), 0);
});

test('unmounts a mount whose process was killed', { skip, timeout }, async () => {
  await using mount = await mountTestTree();
  await mount.crash();
  assert.deepEqual(await unmountPath(mount.path), { result: 'unmounted', holders: [] });
  assert.equal(await mountsAt(mount.path), 0);
});

test('detaches a mount that is in use, names who uses it, and lets him finish', {
  skip,
  timeout,
}, async () => {
  await using mount = await mountTestTree();
  const holder = spawn('sh', ['-c', 'read line; cat hello.txt'], {
    cwd: mount.path,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  try {
    await once(holder, 'spawn');
    const { result, holders } = await unmountPath(mount.path);
    assert.equal(result, 'detached');
    assert.deepEqual(holders, [{ pid: holder.pid, command: 'sh' }]);
    assert.equal(formatHolders(holders), `sh (pid ${holder.pid})`);
    assert.equal(await mountsAt(mount.path), 0);
    holder.stdin.end('go\n');
    const [content] = await once(holder.stdout, 'data');
    assert.equal(String(content), 'hello, world\n');
    assert.equal(await mount.ended(), 0);
  } finally {
    holder.kill();
  }
});

test('leaves alone what is no mount of ours', { skip, timeout }, async () => {
  await using directory = await temporaryDirectory();
  await assert.rejects(unmountPath(directory.path), {
    code: 'not-found',
    message: 'nothing is mounted here',
  });
  const other = join(directory.path, 'other');
  await mkdir(other);
  assert.equal((await tool('mount', '-t', 'tmpfs', 'other', other)).status, 0);
  await assert.rejects(unmountPath(other), {
    code: 'not-found',
    message: 'tmpfs, which is not ours, is mounted here',
  });
  assert.equal(await mountsAt(other), 1);
});
