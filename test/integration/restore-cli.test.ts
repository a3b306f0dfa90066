/** `restore` in a child process, on datastores that the test encoders write. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { after, before, test } from 'node:test';
import { type CliResult, cleanEnvironment, program, runCli, startCli } from '../cli/run-cli.ts';
import { damageChunk, temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';
import { encodePxar, type PxarNode } from '../support/encode-pxar.ts';
import { needs } from '../support/requirements.ts';
import { temporaryDirectory } from '../transfer/support/temporary-directory.ts';

const time = 1_700_000_000;
const iso = '2023-11-14T22:13:20Z';
const chunkSize = 256 * 1024;
const disk = Buffer.concat([
  randomBytes(4 * 1024 * 1024),
  Buffer.alloc(4 * 1024 * 1024),
  Buffer.from('end'),
]);
const large = randomBytes(2 * 1024 * 1024);
const store = temporaryDatastore();

function node(name: string, rest: Record<string, unknown>): PxarNode {
  const base = { name: Buffer.from(name), permissions: 0o644, mtime: { seconds: time, nanos: 5 } };
  return { ...base, ...rest } as PxarNode;
}
const dir = (name: string, ...children: PxarNode[]): PxarNode =>
  node(name, { type: 'directory', permissions: 0o755, children });
const file = (name: string, content: string | Buffer, rest = {}): PxarNode =>
  node(name, { type: 'file', content: Buffer.from(content as string), ...rest });

const tree = dir(
  '',
  dir('etc', file('a.conf', 'a\n', { uid: 1234, gid: 4321 }), file('b.txt', 'b\n')),
  file('large', large),
  node('link', { type: 'symlink', target: Buffer.from('etc/a.conf') }),
  node('null', { type: 'char', major: 1, minor: 3 }),
  node('pipe', { type: 'fifo' }),
  file('suid', 'x', {
    permissions: 0o6755,
    uid: 1234,
    xattrs: [
      ['trusted.t', Buffer.from('t')],
      ['user.u', Buffer.from('u')],
    ],
  }),
);

before(() => {
  chmodSync(store.path, 0o755);
  const data = encodePxar(tree, { version: 1 }).metadata;
  writeSnapshot(store.path, {
    group: 'host/web',
    time,
    images: { 'disk.img': disk },
    archives: { 'root.pxar': { data, chunkSize } },
    blobs: { 'etc.conf': Buffer.from('conf\n') },
  });
  const others = [randomBytes(2 * 1024 * 1024), randomBytes(2 * 1024 * 1024)] as const;
  const broken = dir('', file('a', others[0]), file('b', others[1]), file('c', 'c\n'));
  const written = writeSnapshot(store.path, {
    group: 'host/broken',
    time,
    archives: { 'root.pxar': { data: encodePxar(broken, { version: 1 }).metadata, chunkSize } },
  });
  // Lies within the content of a.
  damageChunk(store.path, written.chunks('root.pxar')[3]?.digest ?? '', 'missing');
});
after(() => store[Symbol.dispose]());

async function pbsfs(...args: string[]): Promise<CliResult> {
  return await runCli(args, { env: { PBS_REPOSITORY: store.path } });
}

async function succeeds(...args: string[]): Promise<CliResult> {
  const result = await pbsfs(...args);
  assert.equal(result.code, 0, result.stderr);
  return result;
}

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

test('a whole snapshot is restored side by side', async () => {
  using temporary = temporaryDirectory();
  const target = temporary.join('new/web');
  const { stdout, stderr } = await succeeds('restore', '--progress', 'host/web', target);
  assert.equal(stdout.length, 0);
  assert.match(
    stderr,
    /^restore image complete \(bytes=8388611, duration=[\d.]+s, speed=[\d.]+MB\/s\)$/m,
  );
  assert.match(stderr, /^disk\.img: 100 % of 8\.0 MiB: /m);
  assert.deepEqual(readdirSync(target), ['disk.img', 'etc.conf', 'index.json', 'root.pxar']);
  assert.equal(sha256(readFileSync(`${target}/disk.img`)), sha256(disk));
  assert.equal(readFileSync(`${target}/etc.conf`, 'utf8'), 'conf\n');
  assert.ok(readFileSync(`${target}/root.pxar/large`).equals(large));
  assert.deepEqual(readdirSync(`${target}/root.pxar`), [
    'etc',
    'large',
    'link',
    'null',
    'pipe',
    'suid',
  ]);
});

test('one file goes under its own name, a new one, or to standard output', async () => {
  using temporary = temporaryDirectory();
  const path = `host/web/${iso}/root.pxar/etc/a.conf`;
  await succeeds('restore', path, temporary.path);
  await succeeds('restore', path, temporary.join('renamed'));
  await succeeds('restore', 'host/web/latest/etc.conf', `${temporary.path}/`);
  assert.deepEqual(readdirSync(temporary.path), ['a.conf', 'etc.conf', 'renamed']);
  const found = lstatSync(temporary.join('renamed'), { bigint: true });
  assert.equal(found.mtimeNs, BigInt(time) * 1_000_000_000n + 5n);
  const { stdout } = await succeeds('restore', path, '-');
  assert.equal(stdout.toString(), 'a\n');
});

test('patterns, stripped components and a dry run choose', async () => {
  using temporary = temporaryDirectory();
  const args = ['restore', 'host/web/root.pxar', temporary.join('t'), '--pattern', '*.conf'];
  const { stdout } = await succeeds(...args, '--dry-run');
  assert.equal(stdout.toString(), 'etc/\netc/a.conf\n');
  assert.equal(existsSync(temporary.join('t')), false);
  await succeeds(...args, '--strip-components', '1');
  assert.deepEqual(readdirSync(temporary.join('t')), ['a.conf']);
  const none = await pbsfs(
    'restore',
    'host/web/root.pxar',
    temporary.join('n'),
    '--pattern',
    'nope',
  );
  assert.equal(none.code, 3);
  assert.match(none.stderr, /nothing there is selected/);
});

test('what is there stays unless it is to be overwritten, and exit code 1 says so', async () => {
  using temporary = temporaryDirectory();
  const target = temporary.join('t');
  mkdirSync(`${target}/etc`, { recursive: true });
  writeFileSync(`${target}/etc/a.conf`, 'mine');
  const refused = await pbsfs('restore', 'host/web/root.pxar', target);
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /^pbsfs: restore: etc\/a\.conf: exists already \(--overwrite replaces it\)$/m,
  );
  assert.equal(readFileSync(`${target}/etc/a.conf`, 'utf8'), 'mine');
  assert.ok(readFileSync(`${target}/large`).equals(large));
  await succeeds('restore', 'host/web/root.pxar', target, '--overwrite');
  assert.equal(readFileSync(`${target}/etc/a.conf`, 'utf8'), 'a\n');
});

test('damage costs one file, is named at the end, and exits with 6', async () => {
  using temporary = temporaryDirectory();
  const { code, stderr } = await pbsfs('restore', 'host/broken/root.pxar', temporary.join('t'));
  assert.equal(code, 6);
  assert.match(stderr, /^pbsfs: restore: .*root\.pxar\.didx: .*chunk [0-9a-f]{64}.*$/m);
  assert.match(stderr, /restored 3 entries, .*, 1 failed$/m);
  assert.deepEqual(readdirSync(temporary.join('t')), ['b', 'c']);
});

test('with --on-error zero the damaged file is there, with zeros, and the exit code stays 6', async () => {
  using temporary = temporaryDirectory();
  const args = ['restore', 'host/broken/root.pxar', temporary.join('t'), '--on-error', 'zero'];
  const { code } = await pbsfs(...args);
  assert.equal(code, 6);
  const content = readFileSync(temporary.join('t/a'));
  assert.equal(content.length, 2 * 1024 * 1024);
  assert.ok(content.includes(Buffer.alloc(chunkSize)));
});

test('a tar stream keeps its shape over damage, names the range, and exits with 6', {
  skip: needs('tar'),
}, async () => {
  using temporary = temporaryDirectory();
  const { code, stdout, stderr } = await pbsfs(
    'restore',
    'host/broken/root.pxar',
    '-',
    '--format',
    'tar',
  );
  assert.equal(code, 6);
  assert.match(
    stderr,
    /^pbsfs: restore: a: zeros in place of bytes \d+…\d+: .*chunk [0-9a-f]{64}/m,
  );
  execFileSync('tar', ['-xf', '-', '-C', temporary.path], { input: stdout });
  const content = readFileSync(temporary.join('a'));
  assert.equal(content.length, 2 * 1024 * 1024);
  const zeros = content.indexOf(Buffer.alloc(1000));
  assert.ok(content.subarray(zeros, zeros + chunkSize).equals(Buffer.alloc(chunkSize)));
  assert.equal(readFileSync(temporary.join('c'), 'utf8'), 'c\n');
});

test('a whole archive as pxar is what is stored; a file for a stream is not overwritten', async () => {
  using temporary = temporaryDirectory();
  const target = temporary.join('web.pxar');
  await succeeds('restore', 'host/web/root.pxar', target, '--format', 'pxar');
  assert.ok(readFileSync(target).equals(encodePxar(tree, { version: 1 }).metadata));
  const again = await pbsfs('restore', 'host/web/root.pxar', target, '--format', 'tar');
  assert.equal(again.code, 1);
  assert.match(again.stderr, /exists already \(--overwrite replaces it\)/);
});

test('a directory on standard output needs a format; what is above snapshots cannot be restored', async () => {
  const plain = await pbsfs('restore', 'host/web/root.pxar', '-');
  assert.equal(plain.code, 2);
  assert.match(plain.stderr, /--format tar, zip or pxar/);
  const above = await pbsfs('restore', 'host', '/nonexistent/x');
  assert.equal(above.code, 2);
  assert.match(above.stderr, /above all snapshots/);
});

test('an ordinary user gets what is possible, and one line about the rest', {
  skip: needs('root'),
}, async () => {
  using temporary = temporaryDirectory(0o777);
  const target = temporary.join('t');
  const child = spawn(process.execPath, [program, 'restore', 'host/web/root.pxar', target], {
    env: cleanEnvironment({ PBS_REPOSITORY: store.path }),
    uid: 65534,
    gid: 65534,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (part: Buffer) => {
    stderr += part.toString();
  });
  const [code] = (await once(child, 'close')) as [number];
  assert.equal(code, 0, stderr);
  const lines = stderr.split('\n').filter((line) => line.includes('left out'));
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? '', /\d+ × owner and group/);
  assert.match(lines[0] ?? '', /1 × device nodes, fifos and sockets/);
  assert.match(lines[0] ?? '', /1 × extended attributes trusted\.\*/);
  assert.match(lines[0] ?? '', /\(root could restore them\)$/);
  assert.deepEqual(readdirSync(target), ['etc', 'large', 'link', 'pipe', 'suid']);
  const found = statSync(`${target}/suid`);
  // Nobody's program must not run with the rights of nobody for all.
  assert.deepEqual([found.uid, found.mode & 0o7777], [65534, 0o755]);
  assert.equal(
    execFileSync('getfattr', ['--only-values', '-n', 'user.u', `${target}/suid`]).toString(),
    'u',
  );
});

test('a full disk ends the restore at once, with nothing half-written', {
  skip: needs('root', 'unshare'),
}, async () => {
  using temporary = temporaryDirectory();
  // 2 MiB of content and 1 MiB of room; the mount is gone with its namespace.
  const script = `mount -t tmpfs -o size=1m none "$1" && "$2" "$3" restore host/web/root.pxar "$1"; code=$?; ls "$1"; exit $code`;
  const result = spawnSync(
    'unshare',
    ['-m', 'sh', '-c', script, 'sh', temporary.path, process.execPath, program],
    { env: cleanEnvironment({ PBS_REPOSITORY: store.path }) },
  );
  assert.equal(result.status, 1, result.stderr.toString());
  assert.match(
    result.stderr.toString(),
    /^pbsfs: restore: large: the target is full \(make room and run it again\)$/m,
  );
  assert.doesNotMatch(result.stdout.toString(), /large/);
});

test('Ctrl-C takes away what is not whole, and --resume goes on', async () => {
  using temporary = temporaryDirectory();
  const target = temporary.join('t');
  const many = dir(
    '',
    ...Array.from({ length: 4000 }, (_, i) =>
      file(`f${String(i).padStart(4, '0')}`, `content ${i}`),
    ),
  );
  writeSnapshot(store.path, {
    group: 'host/many',
    time,
    archives: { 'root.pxar': { data: encodePxar(many, { version: 1 }).metadata, chunkSize } },
  });
  const args = ['restore', 'host/many/root.pxar', target];
  const child = startCli(args, { env: { PBS_REPOSITORY: store.path } });
  while (!existsSync(`${target}/f0010`)) await new Promise((resolve) => setTimeout(resolve, 5));
  child.kill('SIGINT');
  const [code] = (await once(child, 'close')) as [number];
  const names = readdirSync(target);
  assert.ok(
    names.every(
      (name) => readFileSync(`${target}/${name}`, 'utf8') === `content ${Number(name.slice(1))}`,
    ),
  );
  // A machine that had it all restored before the signal came proves nothing, and is no failure.
  if (names.length < 4000) assert.equal(code, 130);
  const inode = statSync(`${target}/f0000`).ino;
  await succeeds(...args, '--resume');
  assert.equal(readdirSync(target).length, 4000);
  assert.equal(statSync(`${target}/f0000`).ino, inode);
});
