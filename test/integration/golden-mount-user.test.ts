/**
 * The golden datastore, mounted read-only itself, shown by an ordinary user and by root. Each test has a mount
 * namespace of its own, where checkout and datastore lie at places that everybody may enter.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MountProcess } from '../cli/mounted.ts';
import { cleanEnvironment } from '../cli/run-cli.ts';
import { expectedSnapshots, goldenStore } from '../support/golden.ts';
import { type ToolResult, temporaryDirectory, tool } from '../support/mount-fixture.ts';
import { needs } from '../support/requirements.ts';
import { until } from '../support/until.ts';

const skip = needs(
  'golden',
  'fuse',
  'root',
  'koffi',
  'fusermount3',
  'unshare',
  'nsenter',
  'setpriv',
);
const timeout = 60_000;
const checkout = fileURLToPath(new URL('../..', import.meta.url));
/** `nobody`. */
const user = 65_534;
const image = 'vm/100/2023-11-15T22:13:20Z/drive-scsi0.img';

/** Arguments: directory, checkout, datastore, Node, uid, mode of the datastore, and what to run. */
const prepare = `
set -e; cd "$1"; mkdir app store node dev; touch node/node; install -d -o "$5" mnt
mount --bind "$2" app; mount --bind "$4" node/node
if [ "$6" = 755 ]; then mount --bind "$3" store; mount -o remount,bind,ro store; else chmod "$6" store; fi
mount -t tmpfs -o mode=755 none dev; mknod -m 666 dev/fuse c 10 229; mount --bind dev/fuse /dev/fuse
uid="$5"; shift 6; exec setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"`;

interface OwnMount extends AsyncDisposable {
  readonly served: MountProcess;
  readonly path: string;
  /** Runs a tool in the namespace, as that user. */
  as(uid: number, ...command: readonly string[]): Promise<ToolResult>;
}

async function mountAs(uid: number, storeMode = '755'): Promise<OwnMount> {
  await using resources = new AsyncDisposableStack();
  const directory = resources.use(await temporaryDirectory());
  await chmod(directory.path, 0o755);
  const at = (name: string): string => join(directory.path, name);
  const command = [at('node/node'), at('app/bin/pbsfs.js'), 'mount', at('store'), at('mnt')];
  const own = [directory.path, checkout, goldenStore, process.execPath, String(uid), storeMode];
  const unshare = ['--mount', '--propagation', 'private', 'sh', '-c', prepare, 'sh'];
  const child = spawn('unshare', [...unshare, ...own, ...command], { env: cleanEnvironment() });
  const served = resources.use(new MountProcess(child));
  const isUp = until('the mount is up', async () => served.stdout.includes('\n'));
  await Promise.race([isUp, served.ended]);
  isUp.catch(() => {});
  const moved = resources.move();
  const enter = ['--mount', `--target=${child.pid}`, 'setpriv'];
  return {
    served,
    path: at('mnt'),
    as: (other, ...args) =>
      tool('nsenter', ...enter, `--reuid=${other}`, `--regid=${other}`, '--clear-groups', ...args),
    [Symbol.asyncDispose]: () => moved.disposeAsync(),
  };
}

for (const [who, uid] of [
  ['an ordinary user', user],
  ['root', 0],
] as const) {
  test(`${who} mounts a datastore that lies on a read-only filesystem`, {
    skip,
    timeout,
  }, async () => {
    await using mount = await mountAs(uid);
    assert.match(mount.served.stdout, /^mounted .*\n$/, mount.served.stderr);
    const found = await mount.as(
      uid,
      ...['find', mount.path, '-path', '*enc/*.pxar', '-prune', '-o', '-ls'],
    );
    assert.equal(found.status, 0, found.stderr);
    assert.ok(found.stdout.toString().split('\n').length > 13_000);
    const { sha256 } =
      expectedSnapshots().find(({ dir }) => image.startsWith(`${dir}/`))?.archives[
        'drive-scsi0.img.fidx'
      ] ?? {};
    const copy = await mount.as(uid, 'dd', `if=${join(mount.path, image)}`, 'bs=1M', 'status=none');
    assert.equal(copy.stderr, '');
    assert.equal(createHash('sha256').update(copy.stdout).digest('hex'), sha256);
    const secret = join(mount.path, 'ct/110/latest/root.pxar/etc/sub/random.bin');
    assert.equal((await mount.as(uid, 'wc', '-c', secret)).stdout.toString(), `200000 ${secret}\n`);
    const stranger = await mount.as(1234, 'ls', mount.path);
    assert.match(stranger.stderr, /Permission denied/);
    assert.equal((await mount.as(uid, 'umount', mount.path)).status, 0);
    assert.equal(await mount.served.ended, 0);
    assert.equal(mount.served.stderr, '');
  });
}

test('a user who may not read the datastore is told so', { skip, timeout }, async () => {
  await using mount = await mountAs(user, '700');
  assert.equal(await mount.served.ended, 4);
  assert.match(
    mount.served.stderr,
    /^pbsfs: mount: \S*\/store\S*: permission denied \(.* group .*\)\n$/,
  );
  assert.equal(mount.served.stdout, '');
});
