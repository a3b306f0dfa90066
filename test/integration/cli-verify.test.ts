/** `pbsfs verify` in a child process: what it prints, and how it ends. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { type CliResult, runCli, startCli } from '../cli/run-cli.ts';
import {
  damageChunk,
  temporaryDatastore,
  vectorKey,
  type WrittenSnapshot,
  writeSnapshot,
} from '../support/encode-datastore.ts';
import { encodePxar } from '../support/encode-pxar.ts';
import { PbsServer, testPassword } from '../support/pbs-server/server.ts';

const store = temporaryDatastore();
const time = 1_700_000_000;
const at = '2023-11-14T22:13:20Z';
const chunkSize = 65_536;
let damaged: WrittenSnapshot;

before(() => {
  const disk = (size: number) => ({ data: randomBytes(size), chunkSize });
  writeSnapshot(store.path, {
    group: 'vm/100',
    time,
    images: { 'drive-scsi0.img': disk(200_000) },
  });
  writeSnapshot(store.path, {
    group: 'vm/200',
    time,
    images: { 'drive-scsi0.img': disk(100_000) },
    key: vectorKey,
  });
  const name = Buffer.from('big');
  const file = { type: 'file', name, content: randomBytes(250_000) } as const;
  const root = { type: 'directory', name: Buffer.alloc(0), children: [file] } as const;
  damaged = writeSnapshot(store.path, {
    group: 'host/web',
    time,
    archives: { 'root.pxar': { data: encodePxar(root, { version: 1 }).metadata, chunkSize } },
  });
  damageChunk(store.path, damaged.chunks('root.pxar')[1]?.digest ?? '', 'bit-flip');
});
after(() => store[Symbol.dispose]());

async function verify(...args: string[]): Promise<CliResult> {
  return await runCli(['verify', '-r', store.path, ...args]);
}

test('what is whole ends with 0 and one line', async () => {
  const { code, stdout, stderr } = await verify('vm/100');
  assert.equal(code, 0);
  assert.equal(stdout.length, 0);
  assert.match(
    stderr,
    /^pbsfs: verified 1 snapshot, 1 archive, 4 chunks, 195\.3 KiB, .+\/s, all good\n$/,
  );
  assert.equal((await verify('vm/100', '--quiet')).stderr, '');
});

test('what is locked ends with 5', async () => {
  const { code, stderr } = await verify('vm');
  assert.equal(code, 5);
  assert.match(stderr, new RegExp(`verify: vm/200/${at}: encrypted with key .*--keyfile`));
  assert.match(stderr, /, 1 locked\n$/);
});

test('what is bad is named with its files, and ends with 6', async () => {
  const { code, stderr } = await verify();
  assert.equal(code, 6);
  const [bad = '', hits, locked, summary] = stderr.split('\n');
  const digest = damaged.chunks('root.pxar')[1]?.digest;
  const place = `host/web/${at}: root.pxar.didx: at offset 65536, 65536 bytes: chunk ${digest}: `;
  assert.ok(bad.startsWith(`pbsfs: verify: ${place}`), bad);
  assert.equal(hits, '  hits big');
  assert.match(locked ?? '', /vm\/200/);
  assert.match(summary ?? '', /^pbsfs: verified 3 snapshots, .*, 1 bad, 1 locked$/);
});

test('--json gives one object and nothing else', async () => {
  const { code, stdout, stderr } = await verify('--json');
  assert.equal(code, 6);
  assert.equal(stderr, '');
  const report = JSON.parse(stdout.toString());
  const { error, ...place } = report.bad[0];
  assert.match(error, /CRC/);
  assert.deepEqual(place, {
    snapshot: `host/web/${at}`,
    archive: 'root.pxar.didx',
    offset: chunkSize,
    length: chunkSize,
    digest: damaged.chunks('root.pxar')[1]?.digest,
    code: 'corrupt',
    files: ['big'],
    metadata: false,
  });
  const { bad, locked, bytes, ...counts } = report;
  assert.equal(bad.length, 1);
  assert.ok(bytes > 550_000);
  assert.deepEqual(counts, { snapshots: 3, archives: 3, chunks: 10, locked_chunks: 2 });
  assert.deepEqual(
    locked.map(({ snapshot }: { snapshot: string }) => snapshot),
    [`vm/200/${at}`],
  );
});

test('a server is verified like a directory, and Ctrl-C ends it with 130', async () => {
  await using server = await PbsServer.start({ directory: store.path });
  const env = {
    PBS_REPOSITORY: server.repository,
    PBS_FINGERPRINT: server.fingerprint,
    PBS_PASSWORD: testPassword,
  };
  const whole = await runCli(['verify', '--json'], { env });
  assert.equal(whole.code, 6, whole.stderr);
  const { bad, ...report } = JSON.parse(whole.stdout.toString());
  assert.equal(bad[0].offset, chunkSize);
  assert.deepEqual([report.chunks, report.snapshots], [10, 3]);
  const before = server.count('chunk');
  server.faults.add({ on: 'chunk', fault: 'silence', count: 100 });
  const child = startCli(['verify'], { env });
  const ended = once(child, 'close');
  while (server.count('chunk') === before) await setTimeout(20);
  child.kill('SIGINT');
  assert.equal((await ended)[0], 130);
});
