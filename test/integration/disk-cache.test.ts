/** `--cache-dir` over a server: what was read once needs it no more, and nothing that happens to the cache shows. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, globSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { startMount, temporaryMountPoint } from '../cli/mounted.ts';
import { type CliResult, runCli, startCli } from '../cli/run-cli.ts';
import {
  chunkPath,
  temporaryDatastore,
  type WrittenChunk,
  writeSnapshot,
} from '../support/encode-datastore.ts';
import { PbsServer, testPassword } from '../support/pbs-server/server.ts';
import { needs } from '../support/requirements.ts';
import { until } from '../support/until.ts';
import { temporaryDirectory } from '../transfer/support/temporary-directory.ts';

const mountable = needs('fuse', ...(process.getuid?.() === 0 ? [] : ['fusermount3', 'koffi']));
const store = temporaryDatastore();
const chunkSize = 131_072;
const chunkCount = 80;
/** More than the memory of a mount with --cache-chunks 1. */
const disk = randomBytes(chunkCount * chunkSize);
const image = 'vm/100/latest/drive-scsi0.img';
/** A listing of a mount is taken for current for three seconds. */
const pastListingLife = 3500;
let chunks: readonly WrittenChunk[];
let server: PbsServer;

before(async () => {
  const written = writeSnapshot(store.path, {
    group: 'vm/100',
    time: 1_700_000_000,
    images: { 'drive-scsi0.img': { data: disk, chunkSize } },
  });
  chunks = written.chunks('drive-scsi0.img');
  server = await PbsServer.start({ directory: store.path });
});
after(async () => {
  await server[Symbol.asyncDispose]();
  store[Symbol.dispose]();
});

function environment(of: PbsServer = server): NodeJS.ProcessEnv {
  return {
    PBS_REPOSITORY: of.repository,
    PBS_FINGERPRINT: of.fingerprint,
    PBS_PASSWORD: testPassword,
  };
}

async function cat(cache: string, ...args: string[]): Promise<CliResult> {
  return await runCli(['cat', '--cache-dir', cache, ...args, image], { env: environment() });
}

/** Chunks that `action` asks the server for. */
async function fetchedBy(action: () => Promise<unknown>): Promise<number> {
  const count = server.count('chunk');
  await action();
  return server.count('chunk') - count;
}

/** Past the page cache. */
async function readDirectly(mountPoint: string): Promise<Buffer> {
  const { stdout } = await promisify(execFile)(
    'dd',
    [`if=${join(mountPoint, image)}`, 'bs=1M', 'iflag=direct', 'status=none'],
    { encoding: 'buffer', maxBuffer: 2 * disk.length },
  );
  return stdout;
}

/** Every finished file of a cache is the stored chunk that its name says. */
function checkFiles(cache: string): number {
  const files = globSync('??/*', { cwd: cache }).filter((path) => !path.endsWith('.tmp'));
  for (const path of files) {
    const stored = readFileSync(chunkPath(store.path, path.slice(3)));
    assert.ok(readFileSync(join(cache, path)).equals(stored), path);
  }
  return files.length;
}

test('a second command fetches no chunk', async () => {
  using cache = temporaryDirectory();
  const first = async (): Promise<void> => {
    const { code, stdout, stderr } = await cat(cache.path);
    assert.equal(stderr, '');
    assert.equal(code, 0);
    assert.ok(stdout.equals(disk));
  };
  assert.equal(await fetchedBy(first), chunkCount);
  assert.equal(checkFiles(cache.path), chunkCount);
  assert.equal(await fetchedBy(first), 0);
  using target = temporaryDirectory();
  const restored = target.join('disk.img');
  const restore = async (): Promise<void> => {
    const args = ['restore', '--cache-dir', cache.path, image, restored];
    const { code, stderr } = await runCli(args, { env: environment() });
    assert.equal(code, 0, stderr);
    assert.ok(readFileSync(restored).equals(disk));
  };
  assert.equal(await fetchedBy(restore), 0);
});

test('a mount goes on with all that it read when its server is gone', {
  skip: mountable,
}, async () => {
  using cache = temporaryDirectory();
  await using point = await temporaryMountPoint();
  await using lost = await PbsServer.start({ directory: store.path });
  const options = `cache-dir=${cache.join('new')},cache-size=1G,cache-chunks=1`;
  await using mounted = await startMount(['-o', options, point.path], environment(lost));
  assert.ok((await readDirectly(point.path)).equals(disk));
  const requests = lost.requests.length;
  await lost[Symbol.asyncDispose]();
  await delay(pastListingLife);
  const startedAt = performance.now();
  assert.ok((await readDirectly(point.path)).equals(disk));
  assert.ok(performance.now() - startedAt < 5000);
  assert.equal(lost.requests.length, requests);
  assert.match(mounted.stderr, /does not answer: showing what it listed before\n$/);
  assert.equal(await mounted.stop('SIGTERM'), 0);
});

test('two mounts share a directory at the same time', { skip: mountable }, async () => {
  using cache = temporaryDirectory();
  await using one = await temporaryMountPoint();
  await using other = await temporaryMountPoint();
  const args = ['--cache-dir', cache.path, '--cache-chunks', '1'];
  await using first = await startMount([...args, one.path], environment());
  await using second = await startMount([...args, other.path], environment());
  const both = await Promise.all([one.path, other.path].map(readDirectly));
  for (const bytes of both) assert.ok(bytes.equals(disk));
  assert.equal(checkFiles(cache.path), chunkCount);
  const again = async (): Promise<void> => {
    for (const path of [one.path, other.path]) assert.ok((await readDirectly(path)).equals(disk));
  };
  assert.equal(await fetchedBy(again), 0);
  assert.equal(`${first.stderr}${second.stderr}`, '');
});

test('a kill in the middle of writing leaves nothing wrong, and nothing in the way', async () => {
  using cache = temporaryDirectory();
  for (const files of [1, 5, 20, 40]) {
    const child = startCli(['cat', '--cache-dir', cache.path, image], { env: environment() });
    child.stdout?.resume();
    const ended = once(child, 'close');
    await until(
      `${files} chunks are kept`,
      async () => child.exitCode !== null || globSync('??/*', { cwd: cache.path }).length >= files,
    );
    child.kill('SIGKILL');
    await ended;
    checkFiles(cache.path);
  }
  const kept = checkFiles(cache.path);
  assert.ok(kept > 0 && kept < chunkCount, `${kept} chunks are kept`);
  const rest = async (): Promise<void> => assert.ok((await cat(cache.path)).stdout.equals(disk));
  assert.equal(await fetchedBy(rest), chunkCount - kept);
  assert.equal(checkFiles(cache.path), chunkCount);
});

test('damage of every kind in the cache shows in no byte', async () => {
  using cache = temporaryDirectory();
  await cat(cache.path);
  const fileOf = (i: number): string => {
    const { digest } = chunks[i] ?? assert.fail();
    return join(cache.path, digest.slice(0, 2), digest);
  };
  const flipped = readFileSync(fileOf(0));
  flipped.writeUInt8(flipped.readUInt8(5000) ^ 4, 5000);
  writeFileSync(fileOf(0), flipped);
  writeFileSync(fileOf(1), '');
  writeFileSync(fileOf(2), readFileSync(fileOf(2)).subarray(0, 9000));
  renameSync(fileOf(3), `${fileOf(3)}.aside`);
  cpSync(fileOf(4), fileOf(3));
  renameSync(`${fileOf(3)}.aside`, fileOf(4));
  writeFileSync(fileOf(5), randomBytes(1000));
  writeFileSync(join(cache.path, 'garbage'), randomBytes(100));
  mkdirSync(join(cache.path, 'zz'));
  const read = async (): Promise<void> => {
    const { code, stdout, stderr } = await cat(cache.path);
    assert.ok(stdout.equals(disk));
    assert.equal(code, 0);
    assert.equal(stderr, '');
  };
  assert.equal(await fetchedBy(read), 6);
  assert.equal(await fetchedBy(read), 0);
});

test('the bound of the command line holds', async () => {
  using cache = temporaryDirectory();
  const { stdout } = await cat(cache.path, '--cache-size', '3M');
  assert.ok(stdout.equals(disk));
  const kept = checkFiles(cache.path);
  assert.ok(kept <= (3 * 2 ** 20) / chunkSize && kept > 15, `${kept} chunks are kept`);
});

test('a directory of other things is refused before anything is asked', async () => {
  using cache = temporaryDirectory();
  writeFileSync(cache.join('letter.txt'), 'dear');
  const requests = server.requests.length;
  const { code, stdout, stderr } = await cat(cache.path);
  assert.equal(code, 2);
  assert.equal(stdout.length, 0);
  assert.match(stderr, /^pbsfs: cat: .*: is neither empty nor a chunk cache of pbsfs \(.+\)\n$/);
  assert.equal(server.requests.length, requests);
  assert.deepEqual(globSync('*', { cwd: cache.path }), ['letter.txt']);
});

test('a mount point within the cache is refused, and the other way round', {
  skip: mountable,
}, async () => {
  await using point = await temporaryMountPoint();
  for (const cache of [point.path, join(point.path, 'cache'), join(point.path, '..')]) {
    const args = ['mount', '--cache-dir', cache, point.path];
    const { code, stderr } = await runCli(args, { env: environment() });
    assert.equal(code, 2);
    assert.match(stderr, /lie within each other/);
  }
});
