/** `pbsfs benchmark`: what it measures, of what, and how it says it. No figure is judged: machines differ. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type CliResult, runCli } from '../cli/run-cli.ts';
import {
  damageChunk,
  temporaryDatastore,
  vectorKey,
  type WrittenSnapshot,
  writeSnapshot,
} from '../support/encode-datastore.ts';
import { PbsServer, testPassword } from '../support/pbs-server/server.ts';

const store = temporaryDatastore();
const quick = ['--seconds', '0.02'];
const machineNames = [
  'sha256',
  'zstd-compress',
  'zstd-decompress',
  'aes-gcm-encrypt',
  'aes-gcm-decrypt',
  'verify',
];
const concurrencies = [1, 4, 8, 12, 16, 32];
let damaged: WrittenSnapshot;

before(() => {
  const image = (size: number) => ({ data: randomBytes(size), chunkSize: 65_536 });
  writeSnapshot(store.path, {
    group: 'vm/100',
    time: 1_700_000_000,
    images: { 'drive-scsi0.img': image(1_000_000), 'drive-scsi1.img': image(3_000_000) },
    blobs: { 'qemu-server.conf': Buffer.from('cores: 2\n') },
  });
  writeSnapshot(store.path, {
    group: 'host/web',
    time: 1_700_000_000,
    archives: {
      'root.mpxar': randomBytes(100_000),
      'root.ppxar': randomBytes(500_000),
      'catalog.pcat1': randomBytes(1000),
    },
  });
  writeSnapshot(store.path, {
    group: 'vm/200',
    time: 1_700_000_000,
    images: { 'drive-scsi0.img': image(5_000_000) },
    key: vectorKey,
  });
  writeSnapshot(store.path, {
    group: 'ns/far/vm/1',
    time: 1_700_000_000,
    images: { 'drive-scsi0.img': { data: Buffer.alloc(300_000), chunkSize: 65_536 } },
  });
  damaged = writeSnapshot(store.path, {
    group: 'ns/bad/vm/1',
    time: 1_700_000_000,
    images: { 'drive-scsi0.img': image(65_536) },
  });
});
after(() => store[Symbol.dispose]());

async function benchmark(...args: string[]): Promise<CliResult> {
  return await runCli(['benchmark', ...quick, ...args]);
}

interface JsonFigure {
  readonly name: string;
  readonly at_once: number;
  readonly bytes_per_second?: number;
  readonly milliseconds?: number;
}

interface JsonReport {
  readonly machine: { readonly cpu: string; readonly cores: number; readonly node: string };
  readonly archive: Record<string, unknown> | null;
  readonly figures: readonly JsonFigure[];
  readonly use: { readonly concurrency: number; readonly prefetch: number } | null;
}

async function reportOf(...args: string[]): Promise<JsonReport> {
  const { code, stdout, stderr } = await benchmark('--json', ...args);
  assert.equal(stderr, '');
  assert.equal(code, 0);
  return JSON.parse(stdout.toString()) as JsonReport;
}

function checkFigures(figures: readonly JsonFigure[]): void {
  for (const figure of figures) {
    const { name, at_once, bytes_per_second, milliseconds } = figure;
    assert.ok(Number.isInteger(at_once) && at_once >= 1, name);
    const isTime = name === 'open' || name === 'first-byte';
    const [present, absent] = isTime
      ? [milliseconds, bytes_per_second]
      : [bytes_per_second, milliseconds];
    assert.ok(present !== undefined && Number.isFinite(present) && present > 0, name);
    assert.equal(absent, undefined, name);
  }
}

test('without a repository it measures the machine alone', async () => {
  const report = await reportOf();
  assert.deepEqual(Object.keys(report), ['machine', 'archive', 'figures', 'use']);
  assert.deepEqual(Object.keys(report.machine), ['cpu', 'cores', 'node']);
  assert.equal(report.machine.node, process.versions.node);
  assert.deepEqual(
    report.figures.map(({ name }) => name),
    machineNames,
  );
  checkFigures(report.figures);
  assert.equal(report.archive, null);
  assert.equal(report.use, null);
});

test('with one it reads the largest archive that it has the key for', async () => {
  const { archive, figures, use } = await reportOf('-r', store.path);
  assert.deepEqual(archive, {
    repository: store.path,
    snapshot: 'vm/100/2023-11-14T22:13:20Z',
    filename: 'drive-scsi1.img.fidx',
    size: 3_000_000,
    chunks: 46,
    repeated: true,
  });
  assert.deepEqual(
    figures.map(({ name }) => name),
    [...machineNames, 'open', 'first-byte', 'stored', ...concurrencies.map(() => 'verified')],
  );
  checkFigures(figures);
  const verified = figures.filter(({ name }) => name === 'verified');
  assert.deepEqual(
    verified.map(({ at_once }) => at_once),
    concurrencies,
  );
  const rates = verified.map(({ bytes_per_second = 0 }) => bytes_per_second);
  const expected = concurrencies.find((_, i) => (rates[i] ?? 0) >= 0.95 * Math.max(...rates));
  assert.deepEqual(use, { concurrency: expected, prefetch: expected });
});

const named: readonly (readonly [path: string, snapshot: string, filename: string])[] = [
  ['vm/100/latest/drive-scsi0.img', 'vm/100/2023-11-14T22:13:20Z', 'drive-scsi0.img.fidx'],
  ['vm/100/drive-scsi0.img.fidx', 'vm/100/2023-11-14T22:13:20Z', 'drive-scsi0.img.fidx'],
  ['vm/100', 'vm/100/2023-11-14T22:13:20Z', 'drive-scsi1.img.fidx'],
  ['host/web/latest/root.pxar', 'host/web/2023-11-14T22:13:20Z', 'root.ppxar.didx'],
];

for (const [path, snapshot, filename] of named) {
  test(`'${path}' names ${filename}`, async () => {
    const { archive } = await reportOf('-r', store.path, path);
    assert.equal(archive?.['snapshot'], snapshot);
    assert.equal(archive?.['filename'], filename);
  });
}

test('the table has a line for each figure and ends with the settings', async () => {
  const { code, stdout } = await benchmark('-r', store.path, 'vm/100/drive-scsi0.img');
  assert.equal(code, 0);
  const lines = stdout.toString().trimEnd().split('\n');
  assert.match(lines[0] ?? '', /^\d+ × .+, Node \d/);
  assert.match(lines[1] ?? '', /^ {2}SHA-256 +[\d.]+ MB\/s +1 at once$/);
  assert.match(lines[7] ?? '', /: vm\/100\/.+\/drive-scsi0\.img\.fidx, 976\.6 KiB, 16 chunks$/);
  assert.match(lines[9] ?? '', /^ {2}first byte +[\d.]+ ms$/);
  assert.equal(lines.filter((line) => line.startsWith('  verified chunks ')).length, 6);
  assert.match(lines.at(-1) ?? '', /^use --concurrency (\d+) --prefetch \1$/);
});

test('an encrypted archive is read with its key', async () => {
  const path = join(store.path, 'key.json');
  writeFileSync(
    path,
    JSON.stringify({
      kdf: null,
      created: '2023-11-14T22:13:20Z',
      modified: '2023-11-14T22:13:20Z',
      data: vectorKey.toString('base64'),
    }),
  );
  const { archive } = await reportOf('-r', store.path, '--keyfile', path);
  assert.equal(archive?.['snapshot'], 'vm/200/2023-11-14T22:13:20Z');
});

test('a server is measured like a directory', async () => {
  await using server = await PbsServer.start({ directory: store.path });
  const { code, stdout, stderr } = await runCli(['benchmark', ...quick, '--json', 'vm/100'], {
    env: {
      PBS_REPOSITORY: server.repository,
      PBS_FINGERPRINT: server.fingerprint,
      PBS_PASSWORD: testPassword,
    },
  });
  assert.equal(code, 0, stderr);
  const { archive, figures } = JSON.parse(stdout.toString()) as JsonReport;
  assert.equal(archive?.['repository'], server.repository);
  checkFigures(figures);
  assert.ok(server.count('chunk') > 46);
});

const failures: readonly (readonly [what: string, args: string[], code: number, said: RegExp])[] = [
  ['a path that is not there', ['vm/100/latest/none.img'], 3, /none\.img/],
  ['a group that is not there', ['vm/999'], 3, /vm\/999/],
  ['a blob', ['vm/100/latest/qemu-server.conf'], 2, /qemu-server\.conf.*no archive of chunks/],
  ['a path above all snapshots', ['vm'], 2, /above all snapshots/],
  ['an encrypted archive without its key', ['vm/200'], 5, /encrypted/],
  ['an archive of zeros', ['ns/far/vm/1'], 2, /nothing but zeros/],
  ['a namespace without archives', ['--ns', 'far'], 2, /nothing but zeros/],
];

for (const [what, args, exitCode, said] of failures) {
  test(`${what} ends with ${exitCode}, before anything is measured`, async () => {
    const { code, stdout, stderr } = await benchmark('-r', store.path, ...args);
    assert.equal(code, exitCode, stderr);
    assert.match(stderr, said);
    assert.equal(stderr.split('\n').length, 2);
    assert.equal(stdout.length, 0);
  });
}

test('a damaged chunk ends it and is named', async () => {
  const [chunk] = damaged.chunks('drive-scsi0.img');
  assert.ok(chunk);
  damageChunk(store.path, chunk.digest, 'bit-flip');
  const { code, stderr } = await benchmark('-r', store.path, 'ns/bad/vm/1');
  assert.equal(code, 6);
  assert.match(stderr, new RegExp(`vm/1/.*drive-scsi0\\.img\\.fidx.*${chunk.digest}`));
});
