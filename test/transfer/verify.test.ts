/** Whole and damaged datastores: what is read how often, and what is said of it. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { zstdDecompressSync } from 'node:zlib';
import { KeyRing } from '../../src/archives/key-ring.ts';
import { isPbsfsError, PbsfsError } from '../../src/errors.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { silentLogger } from '../../src/log.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import { type VerifyTotals, verifySnapshots } from '../../src/transfer/verify.ts';
import type { Finding } from '../../src/transfer/verify-chunks.ts';
import { verifyTargets } from '../../src/transfer/verify-targets.ts';
import { openBackupTree } from '../../src/tree/backup-tree.ts';
import { parseTreePath } from '../../src/tree/tree-path.ts';
import { type CountingRepository, countingRepository } from '../support/counting-repository.ts';
import {
  type ChunkDamage,
  chunkPath,
  damageChunk,
  encodeTestBlob,
  swapChunks,
  temporaryDatastore,
  vectorKey,
  type WrittenSnapshot,
  writeSnapshot,
} from '../support/encode-datastore.ts';
import { encodePxar, type PxarNode } from '../support/encode-pxar.ts';
import { goldenStore } from '../support/golden.ts';
import { goldenKeys } from '../support/golden-keys.ts';
import { needs } from '../support/requirements.ts';
import { wrappedRepository } from '../support/wrapped-repository.ts';

const time = 1_700_000_000;
const day = 86_400;
const first = '2023-11-14T22:13:20Z';
const second = '2023-11-15T22:13:20Z';
const chunkSize = 65_536;

interface Outcome {
  readonly totals: VerifyTotals;
  readonly bad: readonly Finding[];
  readonly locked: readonly PbsfsError[];
  readonly gone: readonly PbsfsError[];
  readonly counting: CountingRepository;
}

interface Verify {
  readonly path?: string;
  readonly keys?: readonly CryptConfig[];
  readonly signal?: AbortSignal;
  /** Runs in front of each read of a chunk. */
  readonly onRead?: (digest: string) => void;
}

async function verify(store: string, options: Verify = {}): Promise<Outcome> {
  const { path = '', signal = new AbortController().signal } = options;
  const keys = new KeyRing(options.keys ?? []);
  const watched = wrappedRepository(await openDatastore(store), async (call, action) => {
    if (call.method === 'readChunk') options.onRead?.(call.target);
    return await action();
  });
  const counting = countingRepository(watched);
  const reading = { keys, cacheChunks: 1, concurrency: 1, logger: silentLogger };
  await using tree = openBackupTree(counting.repository, reading);
  const bad: Finding[] = [];
  const locked: PbsfsError[] = [];
  const gone: PbsfsError[] = [];
  const targets = verifyTargets(tree, parseTreePath(path), {
    signal,
    onError: (_, error) => assert.fail(error),
  });
  const totals = await verifySnapshots(counting.repository, targets, {
    keys,
    concurrency: 3,
    signal,
    onBad: (finding) => bad.push(finding),
    onLocked: (reason) => locked.push(reason),
    onGone: (error) => gone.push(error),
  });
  return { totals, bad, locked, gone, counting };
}

/** `snapshot archive @offset+length` */
function placeOf({ error }: Finding): string {
  const { snapshot, archive, offset, length } = error.context;
  const range = offset === undefined ? '' : ` @${offset}+${length}`;
  return `${snapshot} ${archive ?? '-'}${range}`;
}

function image(data: Buffer): { data: Buffer; chunkSize: number } {
  return { data, chunkSize };
}

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  writeFileSync(path, bytes);
}

function digestAt(written: WrittenSnapshot, name: string, i: number): string {
  return written.chunks(name)[i]?.digest ?? assert.fail('no such chunk');
}

const golden = { skip: needs('golden') };

test(
  'what the real client wrote is whole, and each of its chunks is read once',
  golden,
  async () => {
    const { totals, bad, locked, gone, counting } = await verify(goldenStore, {
      keys: await goldenKeys(),
    });
    assert.deepEqual([bad, locked, gone], [[], [], []]);
    assert.equal(totals.snapshots, 26);
    assert.equal(totals.chunks, 126);
    assert.equal(totals.lockedChunks, 0);
    assert.equal(counting.count('readChunk'), 126);
    const digests = counting.calls.filter(({ method }) => method === 'readChunk');
    assert.equal(new Set(digests.map(({ target }) => target)).size, 126);
  },
);

/** Two snapshots that share chunks, one of which is used twice in each; the last one is short. */
function writeShared(store: string, key?: Uint8Array): readonly [WrittenSnapshot, WrittenSnapshot] {
  const [a, b, c, d] = [1, 2, 3, 4].map(() => randomBytes(chunkSize));
  const zeros = Buffer.alloc(chunkSize);
  const end = randomBytes(1000);
  const disks = [
    [a, b, zeros, b, c, zeros, end],
    [d, a, b, zeros, b, end],
  ].map((parts) => Buffer.concat(parts.map((part) => part ?? Buffer.alloc(0))));
  const write = (data: Buffer | undefined, at: number) =>
    writeSnapshot(store, {
      group: 'vm/100',
      time: at,
      images: { 'drive-scsi0.img': image(data ?? Buffer.alloc(0)) },
      blobs: { 'qemu-server.conf': Buffer.from(`time: ${at}\n`) },
      ...(key === undefined ? {} : { key }),
    });
  return [write(disks[0], time), write(disks[1], time + day)];
}

test('a chunk is read once however often it is used, zeros too', async () => {
  using store = temporaryDatastore();
  writeShared(store.path);
  const { totals, bad, counting } = await verify(store.path);
  assert.deepEqual(bad, []);
  assert.equal(counting.count('readChunk'), 6);
  const blobs = 2 * 'time: 1700000000\n'.length;
  assert.deepEqual(totals, {
    snapshots: 2,
    archives: 4,
    chunks: 6,
    lockedChunks: 0,
    bytes: 5 * chunkSize + 1000 + blobs,
  });
  assert.ok(counting.maxConcurrency <= 3);
});

const damages: readonly ChunkDamage[] = [
  'missing',
  'empty',
  'truncated',
  'bit-flip',
  'wrong-magic',
];

for (const damage of damages) {
  test(`a chunk that is ${damage} is named where each archive first has it`, async () => {
    using store = temporaryDatastore();
    const [written] = writeShared(store.path);
    const digest = digestAt(written, 'drive-scsi0.img', 1);
    damageChunk(store.path, digest, damage);
    const { totals, bad, counting } = await verify(store.path);
    assert.deepEqual(bad.map(placeOf), [
      `vm/100/${first} drive-scsi0.img.fidx @${chunkSize}+${chunkSize}`,
      `vm/100/${second} drive-scsi0.img.fidx @${2 * chunkSize}+${chunkSize}`,
    ]);
    for (const { error, files, hitsMetadata } of bad) {
      assert.ok(isPbsfsError(error, 'corrupt', 'chunk-missing'));
      assert.equal(error.context.digest, digest);
      assert.deepEqual([files.size, hitsMetadata], [0, false]);
    }
    assert.equal(totals.chunks, 6);
    assert.equal(counting.count('readChunk', digest), 1);
  });
}

test('chunks that hold each other’s data are bad, with a right CRC', async () => {
  using store = temporaryDatastore();
  const [written] = writeShared(store.path);
  const swapped = [0, 4].map((i) => digestAt(written, 'drive-scsi0.img', i));
  swapChunks(store.path, swapped[0] ?? '', swapped[1] ?? '');
  const { bad } = await verify(store.path, { path: `vm/100/${first}` });
  assert.deepEqual(
    bad.map(({ error }) => error.context.digest),
    swapped,
  );
});

const files: readonly (readonly [filename: string, at: number, said: RegExp])[] = [
  ['qemu-server.conf.blob', 20, /checksum/],
  ['drive-scsi0.img.fidx', 4096 + 40, /checksum/],
  ['index.json.blob', 20, /CRC/],
];

for (const [filename, at, said] of files) {
  test(`a flipped bit in ${filename} is told, and the other snapshot is read`, async () => {
    using store = temporaryDatastore();
    const [written] = writeShared(store.path);
    flip(join(written.directory, filename), at);
    const { totals, bad } = await verify(store.path);
    assert.deepEqual(bad.map(placeOf), [`vm/100/${first} ${filename}`]);
    assert.match(bad[0]?.error.message ?? '', said);
    assert.equal(totals.snapshots, 2);
  });
}

test('a file of the manifest that is missing is told', async () => {
  using store = temporaryDatastore();
  const [written] = writeShared(store.path);
  rmSync(join(written.directory, 'drive-scsi0.img.fidx'));
  const { bad } = await verify(store.path);
  assert.deepEqual(bad.map(placeOf), [`vm/100/${first} drive-scsi0.img.fidx`]);
  assert.match(bad[0]?.error.message ?? '', /not in the snapshot/);
});

const paths: readonly (readonly [path: string, snapshots: number, archives: number])[] = [
  ['', 3, 5],
  ['vm', 2, 4],
  ['vm/100', 2, 4],
  ['vm/100/latest', 1, 2],
  [`vm/100/${first}`, 1, 2],
  ['vm/100/latest/drive-scsi0.img', 1, 1],
  ['vm/100/latest/drive-scsi0.img.fidx', 1, 1],
  ['vm/100/latest/index.json', 1, 1],
  ['ns', 1, 1],
  ['ns/far/host', 1, 1],
];

test('a path says what is verified: all snapshots of a group, one snapshot, one archive', async () => {
  using store = temporaryDatastore();
  writeShared(store.path);
  writeSnapshot(store.path, {
    group: 'ns/far/host/web',
    time,
    archives: { 'root.pxar': encodePxar(tree(), { version: 1 }).metadata },
  });
  writeSnapshot(store.path, { group: 'vm/100', time: time + 2 * day, finished: false });
  for (const [path, snapshots, archives] of paths) {
    const { totals, bad } = await verify(store.path, { path });
    assert.deepEqual([totals.snapshots, totals.archives, bad], [snapshots, archives, []], path);
  }
  const isUsage = (error: unknown) => isPbsfsError(error, 'usage');
  await assert.rejects(verify(store.path, { path: 'ns/far/host/web/latest/root.pxar/a' }), isUsage);
  const isMissing = (error: unknown) => isPbsfsError(error, 'not-found');
  await assert.rejects(verify(store.path, { path: 'vm/100/latest/none.img' }), isMissing);
});

function file(name: string, size: number): PxarNode {
  return { type: 'file', name: Buffer.from(name), content: randomBytes(size) };
}

/** `b` fills chunks of its own; `e` shares its chunk with names. */
function tree(): PxarNode {
  const link = { type: 'hardlink', name: Buffer.from('link'), target: Buffer.from('d/b') } as const;
  const inner = [file('b', 200_000), file('c', 0)];
  return {
    type: 'directory',
    name: Buffer.alloc(0),
    children: [
      file('a', 10),
      { type: 'directory', name: Buffer.from('d'), children: inner },
      file('e\n', 30_000),
      link,
    ],
  };
}

test('files that lie in a bad chunk are named, with their hard links', async () => {
  using store = temporaryDatastore();
  const written = writeSnapshot(store.path, {
    group: 'host/web',
    time,
    archives: { 'root.pxar': image(encodePxar(tree(), { version: 1 }).metadata) },
  });
  const chunks = written.chunks('root.pxar');
  assert.equal(chunks.length, 4);
  damageChunk(store.path, digestAt(written, 'root.pxar', 1), 'bit-flip');
  const content = await verify(store.path);
  assert.deepEqual(content.bad.map(placeOf), [
    `host/web/${first} root.pxar.didx @${chunkSize}+${chunkSize}`,
  ]);
  assert.deepEqual([...(content.bad[0]?.files ?? [])], ['d/b', 'link']);
  assert.equal(content.bad[0]?.hitsMetadata, false);
  damageChunk(store.path, digestAt(written, 'root.pxar', 3), 'missing');
  const names = await verify(store.path);
  assert.equal(names.bad.length, 2);
  assert.equal(names.bad[1]?.hitsMetadata, true);
  damageChunk(store.path, digestAt(written, 'root.pxar', 0), 'missing');
  const start = await verify(store.path);
  assert.equal(start.bad.length, 3);
  assert.equal(start.bad[0]?.hitsMetadata, true);
});

test('of a split archive the payload hits files, the metadata names', async () => {
  using store = temporaryDatastore();
  const { metadata, payload } = encodePxar(tree(), { version: 2 });
  assert.ok(payload);
  const written = writeSnapshot(store.path, {
    group: 'host/web',
    time,
    archives: { 'root.mpxar': metadata, 'root.ppxar': image(payload) },
  });
  const last = written.chunks('root.ppxar').length - 1;
  damageChunk(store.path, digestAt(written, 'root.ppxar', last), 'truncated');
  const [content] = (await verify(store.path, { path: 'host/web/latest/root.pxar' })).bad;
  assert.equal(content?.error.context.archive, 'root.ppxar.didx');
  assert.deepEqual([...(content?.files ?? [])], ['d/b', 'e\\x0A', 'link']);
  assert.equal(content?.hitsMetadata, false);
  damageChunk(store.path, digestAt(written, 'root.mpxar', 0), 'empty');
  const both = (await verify(store.path)).bad;
  assert.deepEqual(
    both.map(({ error, hitsMetadata }) => [error.context.archive, hitsMetadata]),
    [
      ['root.mpxar.didx', true],
      ['root.ppxar.didx', false],
    ],
  );
});

test('an encrypted snapshot is verified with its key', async () => {
  using store = temporaryDatastore();
  const [written] = writeShared(store.path, vectorKey);
  const keys = [new CryptConfig(vectorKey)];
  const whole = await verify(store.path, { keys });
  assert.deepEqual([whole.bad, whole.locked], [[], []]);
  assert.equal(whole.totals.lockedChunks, 0);
  swapChunks(
    store.path,
    digestAt(written, 'drive-scsi0.img', 0),
    digestAt(written, 'drive-scsi0.img', 4),
  );
  const swapped = await verify(store.path, { keys });
  assert.equal(swapped.bad.length, 3);
});

test('without its key it is locked, and the CRC tells what is damaged', async () => {
  using store = temporaryDatastore();
  const [written] = writeShared(store.path, vectorKey);
  const whole = await verify(store.path);
  assert.deepEqual(
    whole.locked.map(({ code, context }) => [code, context.snapshot]),
    [first, second].map((at) => ['key-missing', `vm/100/${at}`]),
  );
  assert.deepEqual(whole.bad, []);
  assert.deepEqual([whole.totals.chunks, whole.totals.lockedChunks], [6, 6]);
  assert.equal(whole.counting.count('readChunk'), 6);
  damageChunk(store.path, digestAt(written, 'drive-scsi0.img', 4), 'bit-flip');
  flip(join(written.directory, 'qemu-server.conf.blob'), 60);
  const damaged = await verify(store.path);
  assert.deepEqual(damaged.bad.map(placeOf).sort(), [
    `vm/100/${first} drive-scsi0.img.fidx @${4 * chunkSize}+${chunkSize}`,
    `vm/100/${first} qemu-server.conf.blob`,
  ]);
});

test('a signature that does not fit is told, and one without its key is locked', async () => {
  using store = temporaryDatastore();
  const data = randomBytes(1000);
  const images = { 'drive-scsi0.img': image(data) };
  const signed = { images, key: vectorKey, cryptMode: 'sign-only' } as const;
  const good = writeSnapshot(store.path, { group: 'vm/100', time, ...signed });
  const unchecked = await verify(store.path);
  assert.match(unchecked.locked[0]?.message ?? '', /signature/);
  assert.deepEqual([unchecked.bad, unchecked.totals.lockedChunks], [[], 0]);
  const manifest = join(good.directory, 'index.json.blob');
  const json = zstdDecompressSync(readFileSync(manifest).subarray(12)).toString();
  const forged = Buffer.from(json.replace(`${time}`, `${time + 1}`));
  writeFileSync(manifest, encodeTestBlob(forged, 'plain'));
  const { bad } = await verify(store.path, { keys: [new CryptConfig(vectorKey)] });
  assert.deepEqual(bad.map(placeOf), [`vm/100/${first} index.json.blob`]);
  assert.match(bad[0]?.error.message ?? '', /signature/);
});

test('a snapshot that goes away meanwhile is no damage, and leaves no chunk of others out', async () => {
  using store = temporaryDatastore();
  const [written] = writeShared(store.path);
  const shared = digestAt(written, 'drive-scsi0.img', 0);
  let reads = 0;
  const { totals, bad, gone } = await verify(store.path, {
    onRead: (digest) => {
      if (digest === shared && reads++ === 0) throw new PbsfsError('stale', 'snapshot is gone');
    },
  });
  assert.deepEqual(bad, []);
  assert.deepEqual(
    gone.map(({ context }) => context.snapshot),
    [`vm/100/${first}`],
  );
  assert.equal(totals.snapshots, 1);
  assert.equal(reads, 2);
});

test('it ends when it is told to, and when the repository does not answer', async () => {
  using store = temporaryDatastore();
  writeShared(store.path);
  const abort = new AbortController();
  await assert.rejects(
    verify(store.path, { signal: abort.signal, onRead: () => abort.abort() }),
    (error) => isPbsfsError(error, 'aborted'),
  );
  const unreachable = () => {
    throw new PbsfsError('unreachable', 'no route');
  };
  await assert.rejects(verify(store.path, { onRead: unreachable }), (error) =>
    isPbsfsError(error, 'unreachable'),
  );
});

test('chunks stored in plain are bad in an encrypted archive, also without the key', async () => {
  using store = temporaryDatastore();
  const [written] = writeShared(store.path, vectorKey);
  using other = temporaryDatastore();
  const [plain] = writeShared(other.path);
  const raw = readFileSync(chunkPath(other.path, digestAt(plain, 'drive-scsi0.img', 0)));
  writeFileSync(chunkPath(store.path, digestAt(written, 'drive-scsi0.img', 4)), raw);
  const { bad } = await verify(store.path);
  assert.match(bad[0]?.error.message ?? '', /encrypted archive is stored/);
});
