/** `ls` and `cat` in a child process, on datastores that the test encoders write. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { type CliResult, cleanEnvironment, program, runCli, startCli } from '../cli/run-cli.ts';
import { damageChunk, temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';
import { expectedSnapshots, goldenPassphrase, goldenPath, goldenStore } from '../support/golden.ts';
import { needs } from '../support/requirements.ts';

const chunk = 4 * 1024 * 1024;
const store = temporaryDatastore();
const time = 1_700_000_000;
const iso = '2023-11-14T22:13:20Z';
const disk = Buffer.concat([randomBytes(2 * chunk), Buffer.alloc(chunk), randomBytes(1000)]);

before(() => {
  writeSnapshot(store.path, {
    group: 'vm/100',
    time,
    images: { 'drive-scsi0.img': disk },
    blobs: { 'qemu-server.conf': Buffer.from('cores: 2\n') },
    notes: 'Grüße',
    isProtected: true,
    owner: 'backup@pbs!token',
  });
  const broken = writeSnapshot(store.path, {
    group: 'vm/101',
    time,
    images: { 'drive-scsi0.img': Buffer.concat([randomBytes(chunk), randomBytes(chunk), disk]) },
  });
  damageChunk(store.path, broken.chunks('drive-scsi0.img')[1]?.digest ?? '', 'missing');
  writeSnapshot(store.path, { group: 'vm/102', time, blobs: {}, finished: false });
  writeSnapshot(store.path, {
    group: 'ns/a/ns/b/host/web',
    time,
    blobs: { 'etc.conf': Buffer.from('x') },
  });
});
after(() => store[Symbol.dispose]());

async function pbsfs(...args: string[]): Promise<CliResult> {
  return await runCli(args, { env: { PBS_REPOSITORY: store.path } });
}

async function lines(...args: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await pbsfs(...args);
  assert.equal(stderr, '');
  assert.equal(code, 0);
  return stdout.toString().split('\n').slice(0, -1);
}

test('ls lists the top, groups and snapshots in the order of ls(1)', async () => {
  assert.deepEqual(await lines('ls'), ['ns', 'vm']);
  assert.deepEqual(await lines('ls', 'vm'), ['100', '101', '102']);
  assert.deepEqual(await lines('ls', 'vm/100'), [iso, 'latest']);
  assert.deepEqual(await lines('ls', '--ns', 'a/b'), ['host']);
});

test('ls of several operands puts files first and a heading above each directory', async () => {
  assert.deepEqual(await lines('ls', 'vm/101', 'vm/100/latest/qemu-server.conf', 'vm/102'), [
    'vm/100/latest/qemu-server.conf',
    '',
    'vm/101:',
    iso,
    'latest',
    '',
    'vm/102:',
  ]);
});

test('ls -R walks everything once, links not followed', async () => {
  assert.deepEqual(await lines('ls', '-R', 'ns'), [
    'ns:',
    'a',
    '',
    'ns/a:',
    'ns',
    '',
    'ns/a/ns:',
    'b',
    '',
    'ns/a/ns/b:',
    'host',
    '',
    'ns/a/ns/b/host:',
    'web',
    '',
    'ns/a/ns/b/host/web:',
    iso,
    'latest',
    '',
    `ns/a/ns/b/host/web/${iso}:`,
    'etc.conf',
    'index.json',
  ]);
});

test('ls -l shows size, blocks of data, backup time and link targets', async () => {
  const [total, ...rest] = await lines('ls', '-l', 'vm/100/latest');
  // The third chunk is zeros: a hole.
  const dataBlocks = (2 * chunk + 1000) / 512;
  assert.ok(Number(total?.replace('total ', '')) >= Math.floor(dataBlocks / 2));
  assert.ok(Number(total?.replace('total ', '')) < (3 * chunk) / 1024);
  assert.match(rest[0] ?? '', /^-r--r--r-- 1 0 0 12583912 Nov 14 {2}2023 drive-scsi0\.img$/);
  const group = await lines('ls', '-l', 'vm/100');
  assert.match(group[2] ?? '', /^lr\S+ 1 0 0 +20 Nov 14 {2}2023 latest -> 2023-11-14T22:13:20Z$/);
});

test('ls --all lists unfinished snapshots too', async () => {
  assert.deepEqual(await lines('ls', '--all', 'vm/102'), [iso]);
});

test('ls --time-format renames snapshots, and paths may use either form', async () => {
  const format = ['--time-format', '%Y-%m-%d_%H%M%S'];
  assert.deepEqual(await lines('ls', ...format, 'vm/100'), ['2023-11-14_221320', 'latest']);
  for (const name of [iso, '2023-11-14_221320']) {
    assert.equal((await lines('ls', ...format, `vm/100/${name}`)).length, 3);
  }
});

test('ls --json speaks of groups and snapshots as the API of PBS does', async () => {
  const { stdout } = await pbsfs('ls', '--json', 'vm', 'vm/100');
  const entries = JSON.parse(stdout.toString()) as Record<string, unknown>[];
  assert.equal(entries.length, 5);
  const [group] = entries;
  assert.equal(group?.['backup-type'], 'vm');
  assert.equal(group?.['backup-id'], '100');
  assert.equal(group?.['owner'], 'backup@pbs!token');
  const snapshot = entries.find((entry) => 'backup-time' in entry);
  assert.equal(snapshot?.['path'], `vm/100/${iso}`);
  assert.equal(Buffer.from(String(snapshot?.['path_b64']), 'base64').toString(), `vm/100/${iso}`);
  assert.equal(snapshot?.['backup-time'], time);
  assert.equal(snapshot?.['mtime'], time);
  assert.equal(snapshot?.['comment'], 'Grüße');
  assert.equal(snapshot?.['protected'], true);
  assert.equal(snapshot?.['type'], 'd');
  const [file] = (snapshot?.['files'] ?? []) as { filename: string }[];
  assert.deepEqual(file, {
    filename: 'drive-scsi0.img.fidx',
    'crypt-mode': 'none',
    size: disk.length,
  });
  const latest = entries.find((entry) => entry['name'] === 'latest');
  assert.equal(latest?.['target'], iso);
});

test('ls --json of nothing is an empty array', async () => {
  assert.deepEqual(await lines('ls', '--json', 'vm/102'), ['[]']);
});

test('ls goes on after an operand that is not there, and exits with 3', async () => {
  const { code, stdout, stderr } = await pbsfs('ls', 'vm/999', 'ns');
  assert.equal(code, 3);
  assert.equal(stdout.toString(), 'ns:\na\n');
  assert.equal(stderr, 'pbsfs: ls: vm/999: no such file or directory\n');
});

test('cat writes exactly the bytes, whatever form of the name is used', async () => {
  for (const name of ['drive-scsi0.img', 'drive-scsi0.img.fidx']) {
    const { code, stdout } = await pbsfs('cat', `vm/100/latest/${name}`);
    assert.equal(code, 0);
    assert.ok(stdout.equals(disk));
  }
});

test('cat joins several files', async () => {
  const path = 'vm/100/latest/qemu-server.conf';
  const { stdout } = await pbsfs('cat', path, 'ns/a/ns/b/host/web/latest/etc.conf', path);
  assert.equal(stdout.toString(), 'cores: 2\nxcores: 2\n');
});

test('cat writes nothing when one of its operands is missing', async () => {
  const { code, stdout } = await pbsfs('cat', 'vm/100/latest/qemu-server.conf', 'vm/1/x');
  assert.equal(code, 3);
  assert.equal(stdout.length, 0);
});

test('cat of a directory is an error', async () => {
  const { code, stderr } = await pbsfs('cat', 'vm/100');
  assert.equal(code, 1);
  assert.match(stderr, new RegExp(`^pbsfs: cat: vm/100/${iso}: is a directory`));
});

test('cat stops in front of the first bad chunk and names it, exit 6', async () => {
  const { code, stdout, stderr } = await pbsfs('cat', 'vm/101/latest/drive-scsi0.img');
  assert.equal(code, 6);
  assert.equal(stdout.length, chunk);
  assert.match(
    stderr,
    /^pbsfs: cat: vm\/101\/\S+: drive-scsi0\.img\S*: at offset 4194304\b.*[0-9a-f]{64}/,
  );
  assert.equal(stderr.split('\n').length, 2);
});

test('cat --on-error zero delivers everything else at its place, exit 6', async () => {
  const args = ['cat', '--on-error', 'zero', 'vm/101/latest/drive-scsi0.img'];
  const { code, stdout, stderr } = await pbsfs(...args);
  assert.equal(code, 6);
  assert.equal(stdout.length, 2 * chunk + disk.length);
  assert.ok(stdout.subarray(chunk, 2 * chunk).equals(Buffer.alloc(chunk)));
  assert.ok(stdout.subarray(2 * chunk).equals(disk));
  assert.match(stderr, /^pbsfs: warning: read as zeros: vm\/101\/.*at offset 4194304/);
});

test('a reader that goes away ends the command quietly', async () => {
  const command = `"${process.execPath}" "${program}" cat vm/100/latest/drive-scsi0.img | head -c 1`;
  const child = spawn('bash', ['-c', `${command}; exit "\${PIPESTATUS[0]}"`], {
    env: cleanEnvironment({ PBS_REPOSITORY: store.path }),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (part: Buffer) => {
    stderr += part.toString();
  });
  const [code] = await once(child, 'close');
  assert.equal(stderr, '');
  assert.equal(code, 0);
});

test('an output that cannot be written is an error', { skip: needs('true') }, async () => {
  const child = spawn(process.execPath, [program, 'cat', 'vm/100/latest/drive-scsi0.img'], {
    env: cleanEnvironment({ PBS_REPOSITORY: store.path }),
    stdio: ['ignore', openSync('/dev/full', 'w'), 'ignore'],
  });
  const [code] = await once(child, 'close');
  assert.equal(code, 1);
});

test('doctor tells what it finds in a repository', async () => {
  const { stdout } = await pbsfs('doctor', '--json');
  const checks = JSON.parse(stdout.toString()) as { name: string; status: string }[];
  const status = (name: string): string | undefined =>
    checks.find((check) => check.name === name)?.status;
  assert.deepEqual(['Node', 'repository', 'listing', 'reading'].map(status), Array(4).fill('ok'));
});

test('doctor fails with the exit code of a repository that is not there', async () => {
  const { stdout } = await runCli(['doctor', '/nonexistent/store']);
  assert.match(stdout.toString(), /^FAIL {2}repository: \/nonexistent\/store: does not exist/m);
});

const goldenKeys = ['none', 'scrypt', 'pbkdf2'].flatMap((name) => [
  '--keyfile',
  goldenPath(`keys/${name}.json`),
]);

test('cat gives every image and blob of the golden store as the real client restored it', {
  skip: needs('golden'),
}, async () => {
  const files = expectedSnapshots().flatMap(({ dir, archives }) =>
    Object.entries(archives).flatMap(([name, archive]) => {
      const isImage = archive.kind === 'fixed';
      const sha256 = isImage ? archive.sha256 : archive.decoded_sha256;
      const size = isImage ? archive.size : archive.decoded_size;
      if (archive.kind === 'dynamic' || sha256 === undefined || size === undefined) return [];
      return [{ dir, name, sha256, size }];
    }),
  );
  assert.ok(files.length > 40);
  const paths = files.map(({ dir, name }) => `${dir}/${name}`);
  // One process for all: the sizes say where one ends and the next begins.
  const child = startCli(['cat', '-r', goldenStore, ...goldenKeys, ...paths], {
    env: { PBS_ENCRYPTION_PASSWORD: goldenPassphrase },
  });
  assert.ok(child.stdout);
  const output: AsyncIterator<Buffer> = child.stdout[Symbol.asyncIterator]();
  let rest = Buffer.alloc(0);
  for (const [index, { size, sha256 }] of files.entries()) {
    const hash = createHash('sha256');
    for (let left = size; left > 0; ) {
      if (rest.length === 0) rest = (await output.next()).value ?? assert.fail('ends early');
      const part = rest.subarray(0, left);
      hash.update(part);
      rest = rest.subarray(part.length);
      left -= part.length;
    }
    assert.equal(hash.digest('hex'), sha256, paths[index]);
  }
  assert.equal(rest.length, 0);
  assert.equal((await output.next()).done, true);
});
