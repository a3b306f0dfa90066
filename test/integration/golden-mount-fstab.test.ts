/**
 * The golden datastore through mount(8), as an administrator or fstab calls it. Each test has a mount namespace
 * of its own, with the helper in its `/sbin`.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { program } from '../cli/run-cli.ts';
import { goldenPassphrase, goldenPath, goldenStore } from '../support/golden.ts';
import { type ToolResult, temporaryDirectory, tool } from '../support/mount-fixture.ts';
import { needs } from '../support/requirements.ts';
import { until } from '../support/until.ts';

const skip = needs('golden', 'fuse', 'root', 'unshare', 'nsenter');
const timeout = 60_000;
const encrypted = 'vm/200/2023-11-15T22:13:20Z/qemu-server.conf';
const key = goldenPath('keys/scrypt.json');

/** Arguments: directory, the program and Node. mount(8) empties PATH, so that only these places are searched. */
const prepare = `
set -e; cd "$1"; mkdir mnt 'my store' bin sbin work-bin work-sbin
ln -s "$2" sbin/mount.fuse.pbsfs; ln -s "$2" bin/pbsfs; ln -s "$3" bin/node
for place in bin sbin; do mount -t overlay -o "lowerdir=/usr/$place,upperdir=$1/$place,workdir=$1/work-$place" none /usr/$place; done
mount --bind "$4" 'my store'; echo ready; exec sleep 600`;

interface Machine extends AsyncDisposable {
  at(name: string): string;
  run(...command: readonly string[]): Promise<ToolResult>;
  /** Command lines of the processes that serve a mount here. */
  servers(): Promise<string[]>;
}

async function startMachine(): Promise<Machine> {
  await using resources = new AsyncDisposableStack();
  const { path } = resources.use(await temporaryDirectory());
  await chmod(path, 0o755);
  const args = [path, program, process.execPath, goldenStore];
  const unshare = ['--mount', '--propagation', 'private', 'sh', '-c', prepare, 'sh', ...args];
  const witness = spawn('unshare', unshare, { stdio: ['ignore', 'pipe', 'inherit'] });
  const secret = `PBS_ENCRYPTION_PASSWORD=${goldenPassphrase}`;
  const enter = ['env', secret, 'nsenter', '--mount', `--target=${witness.pid}`] as const;
  const run = (...command: readonly string[]): Promise<ToolResult> => tool(...enter, ...command);
  resources.defer(async () => {
    await run('umount', '-l', join(path, 'mnt'));
    const ended = once(witness, 'exit');
    witness.kill();
    await ended;
  });
  await once(witness.stdout, 'data', { signal: AbortSignal.timeout(10_000) });
  const moved = resources.move();
  return {
    at: (name) => join(path, name),
    run,
    servers: () => commandLines(path),
    [Symbol.asyncDispose]: () => moved.disposeAsync(),
  };
}

async function commandLines(word: string): Promise<string[]> {
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(
    processes.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')),
  );
  return lines.filter(
    (line) => line.includes(word) && line.includes('pbsfs') && !line.includes('sleep'),
  );
}

test('mount -t fuse.pbsfs returns when the mount answers, and umount ends it', {
  skip,
  timeout,
}, async () => {
  await using machine = await startMachine();
  const [store, point] = [machine.at('my store'), machine.at('mnt')];
  const options = ['-o', `ro,noatime,keyfile=${key}`];
  const mounted = await machine.run('mount', '-t', 'fuse.pbsfs', ...options, store, point);
  assert.deepEqual([mounted.status, mounted.stderr, mounted.stdout.toString()], [0, '', '']);
  const read = await machine.run('cat', join(point, encrypted));
  assert.match(read.stdout.toString(), /^memory: 2048$/m);
  const shown = await machine.run('findmnt', '-nro', 'SOURCE,FSTYPE', point);
  assert.equal(shown.stdout.toString(), `${store.replaceAll(' ', '\\x20')} fuse.pbsfs\n`);
  const again = await machine.run('mount', '-t', 'fuse.pbsfs', ...options, store, point);
  assert.match(again.stderr, /is mounted here already/);
  assert.notEqual(again.status, 0);
  assert.equal((await machine.run('umount', point)).status, 0);
  await until('no server is left', async () => (await machine.servers()).length === 0);
});

test("mount -t fuse 'pbsfs#…' mounts by the helper of libfuse", {
  skip: skip || needs('mount.fuse'),
  timeout,
}, async () => {
  await using machine = await startMachine();
  const point = machine.at('mnt');
  const source = `pbsfs#${machine.at('my store')}`;
  const mounted = await machine.run('mount', '-t', 'fuse', '-o', 'ro,nosuid,nodev', source, point);
  assert.deepEqual([mounted.status, mounted.stderr], [0, '']);
  assert.equal((await machine.run('ls', point)).stdout.toString(), 'ct\nhost\nns\nvm\n');
});

test('a line of fstab with what people write there is mounted', { skip, timeout }, async () => {
  await using machine = await startMachine();
  const [store, point, fstab] = ['my store', 'mnt', 'fstab'].map(machine.at);
  const options = 'ro,nofail,_netdev,x-systemd.automount,allow_other,noauto,umask=027,gid=7';
  const line = [store?.replaceAll(' ', '\\040'), point, 'fuse.pbsfs', options, 0, 0].join('\t');
  await writeFile(fstab ?? '', `# comment\n${line}\n`);
  const mounted = await machine.run('mount', '-T', fstab ?? '', point ?? '');
  assert.deepEqual([mounted.status, mounted.stderr], [0, '']);
  const image = join(point ?? '', 'vm/100/latest/drive-scsi1.img');
  const shown = await machine.run('stat', '-c', '%a %u %g %s', image);
  assert.equal(shown.stdout.toString(), '440 0 7 8388608\n');
  const setpriv = ['--reuid=1234', '--regid=7', '--clear-groups'];
  const other = await machine.run('setpriv', ...setpriv, 'sha256sum', image);
  assert.equal(other.status, 0, other.stderr);
  assert.equal((await machine.run('umount', point ?? '')).status, 0);
});

test('what cannot be mounted fails with its reason and leaves nothing', {
  skip,
  timeout,
}, async () => {
  await using machine = await startMachine();
  const [store, point] = [machine.at('my store'), machine.at('mnt')];
  const cases: readonly (readonly [readonly string[], number, RegExp])[] = [
    [['-o', 'ro,colour=blue', store, point], 2, /unknown mount option 'colour'/],
    [['-o', 'keyfile=/nonexistent', store, point], 3, /\/nonexistent: key file does not exist/],
    [['/nonexistent', point], 3, /\/nonexistent: does not exist/],
    [[store, join(point, 'none')], 3, /mount point does not exist/],
    [['-o', 'remount,ro', store, point], 1, /cannot be changed by remounting/],
  ];
  await Promise.all(
    cases.map(async ([args, expected, message]) => {
      const { status, stderr } = await machine.run('mount', '-t', 'fuse.pbsfs', ...args);
      assert.match(stderr, message);
      assert.match(stderr, /^pbsfs: mount: [^\n]*\n$/);
      assert.equal(status, expected, stderr);
    }),
  );
  assert.equal((await machine.run('mountpoint', '-q', point)).status, 32);
  assert.deepEqual(await machine.servers(), []);
});
