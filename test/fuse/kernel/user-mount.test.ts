/**
 * Mounts by an ordinary user: `fusermount3` and `koffi`. Each test has a mount namespace of its own with a
 * `/dev/fuse` that everybody may open, as udev makes it, and a `fuse.conf` of its own.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  MountRefused,
  type MountSettings,
  mountTestTree,
  type TestMount,
  type ToolResult,
  temporaryDirectory,
  tool,
} from '../../support/mount-fixture.ts';
import { needs } from '../../support/requirements.ts';
import { until } from '../../support/until.ts';

const skip = needs('fuse', 'root', 'koffi', 'fusermount3', 'unshare', 'nsenter', 'setpriv');
const timeout = 60_000;
/** `nobody`. */
const user = 65_534;

const prepare = `
set -e; cd "$1"; chown ${user} mnt 2>/dev/null || { mkdir mnt; chown ${user} mnt; }
mount -t tmpfs -o mode=755 none dev; mknod -m 666 dev/fuse c 10 229; mount --bind dev/fuse /dev/fuse
test -e /etc/fuse.conf || touch /etc/fuse.conf; mount --bind fuse.conf /etc/fuse.conf
shift; exec "$@"`;

interface UserMount extends AsyncDisposable {
  readonly mount: TestMount;
  /** Runs a tool in the namespace, as that user. */
  as(uid: number, ...command: readonly string[]): Promise<ToolResult>;
}

async function mountAsUser({
  configuration = '',
  ...settings
}: MountSettings & { readonly configuration?: string } = {}): Promise<UserMount> {
  const directory = await temporaryDirectory();
  await chmod(directory.path, 0o755);
  await tool('mkdir', join(directory.path, 'dev'), join(directory.path, 'mnt'));
  await writeFile(join(directory.path, 'fuse.conf'), configuration);
  const unshare = ['unshare', '--mount', '--propagation', 'private'];
  const wrapper = [...unshare, 'sh', '-c', prepare, 'sh', directory.path];
  const mountPoint = join(directory.path, 'mnt');
  try {
    const mount = await mountTestTree({ user, ...settings, mountPoint, wrapper });
    const enter = ['--mount', `--target=${mount.child.pid}`, 'setpriv'];
    return {
      mount,
      as: (uid, ...command) =>
        tool('nsenter', ...enter, `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', ...command),
      [Symbol.asyncDispose]: async () => {
        await mount[Symbol.asyncDispose]();
        await directory[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await directory[Symbol.asyncDispose]();
    throw error;
  }
}

test('an ordinary user mounts, and alone may enter', { skip, timeout }, async () => {
  await using mounted = await mountAsUser({ source: 'a,b\\c d' });
  const { mount } = mounted;
  const content = await mounted.as(user, 'cat', mount.at('hello.txt'));
  assert.equal(content.stdout.toString(), 'hello, world\n', content.stderr);
  // Whoever may mount a repository may read all of it.
  assert.equal((await mounted.as(user, 'cat', mount.at('private'))).status, 0);
  assert.match((await mounted.as(0, 'ls', mount.path)).stderr, /Permission denied/);
  const listed = await mounted.as(user, 'cat', '/proc/self/mountinfo');
  const line = listed.stdout
    .toString()
    .split('\n')
    .find((text) => text.includes(mount.path));
  assert.match(line ?? '', /ro,nosuid,nodev.* - fuse\.pbsfs a,b\\134c\\040d ro,user_id=65534/);
  assert.equal(await mount.command('unmount'), 'unmounted');
  assert.equal(await mount.ended(), 0);
});

test('an ordinary user takes his mount away by umount', { skip, timeout }, async () => {
  await using mounted = await mountAsUser();
  const { mount } = mounted;
  const unmounted = await mounted.as(user, 'umount', mount.path);
  assert.equal(unmounted.status, 0, unmounted.stderr);
  assert.equal(await mount.ended(), 0);
});

test('a user opens his mount to others where the machine allows it', {
  skip,
  timeout,
}, async () => {
  const configuration = '# comment\nuser_allow_other\n';
  await using mounted = await mountAsUser({ allowOther: true, configuration });
  const { mount } = mounted;
  const other = user - 1;
  assert.equal((await mounted.as(other, 'cat', mount.at('hello.txt'))).status, 0);
  // Then the permissions that were backed up count.
  assert.match((await mounted.as(other, 'cat', mount.at('private'))).stderr, /Permission denied/);
});

test('a user who may not open his mount to others is told what to change', {
  skip,
  timeout,
}, async () => {
  await assert.rejects(
    mountAsUser({ allowOther: true, configuration: '#user_allow_other\n' }),
    (error) => {
      assert.ok(error instanceof MountRefused);
      assert.equal(error.code, 'access-denied');
      assert.match(error.message, /user_allow_other to \/etc\/fuse\.conf/);
      return true;
    },
  );
});

test('a helper unmounts when the process is killed and auto_unmount was asked', {
  skip,
  timeout,
}, async () => {
  // Without allow_other the helper, which runs as root, cannot see that the mount is dead.
  const settings = { autoUnmount: true, allowOther: true, configuration: 'user_allow_other\n' };
  await using mounted = await mountAsUser(settings);
  const { mount } = mounted;
  assert.equal((await mounted.as(user, 'cat', mount.at('hello.txt'))).status, 0);
  // Keeps the namespace when the server is gone.
  const target = `--target=${mount.child.pid}`;
  const witness = spawn('nsenter', ['--mount', target, 'sleep', '60'], { stdio: 'ignore' });
  try {
    const isMounted = async (): Promise<boolean> =>
      (await readFile(`/proc/${witness.pid}/mountinfo`, 'utf8')).includes(mount.path);
    await until('it is mounted', isMounted);
    await mount.crash();
    await until('it is unmounted', async () => !(await isMounted()));
  } finally {
    witness.kill();
  }
});
