/** The life of reader sessions: when they open, what they share, when they end, and that nobody notices. */
import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isPbsfsError } from '../../src/errors.ts';
import { openPbs } from '../../src/repository/pbs/pbs-repository.ts';
import type { PbsSettings } from '../../src/repository/pbs/settings.ts';
import type { Repository, SnapshotReader } from '../../src/repository/repository.ts';
import { withRetry } from '../../src/repository/with-retry.ts';
import {
  damageChunk,
  temporaryDatastore,
  type WrittenSnapshot,
  writeSnapshot,
} from '../support/encode-datastore.ts';
import { sha256 } from '../support/encode-formats.ts';
import { expectError } from '../support/expect-error.ts';
import { settingsFor } from '../support/pbs-server/connect.ts';
import { PbsServer, type PbsServerOptions } from '../support/pbs-server/server.ts';
import { until } from '../support/until.ts';

const time = 1_700_000_000;
const image = 'drive-scsi0.img';
const imageFile = `${image}.fidx`;
const archive = 'root.pxar';
const archiveFile = `${archive}.didx`;

/** Bytes that do not repeat. */
function noise(length: number, seed: string): Buffer {
  const blocks = Array.from({ length: Math.ceil(length / 32) }, (_, i) =>
    sha256(Buffer.from(`${seed}${i}`)),
  );
  return Buffer.concat(blocks).subarray(0, length);
}

interface World extends AsyncDisposable {
  readonly server: PbsServer;
  readonly repository: Repository;
  readonly written: WrittenSnapshot;
  /** Opens the snapshot of a group. */
  open(id?: string, snapshotTime?: number): Promise<SnapshotReader>;
  /** Digest of a chunk of the first snapshot. */
  digest(i: number, name?: string): Buffer;
}

async function world(
  settings: Partial<PbsSettings> = {},
  options: Partial<PbsServerOptions> & { readonly snapshots?: number } = {},
): Promise<World> {
  const store = temporaryDatastore();
  const all = Array.from({ length: options.snapshots ?? 1 }, (_, i) =>
    writeSnapshot(store.path, {
      group: 'vm/1',
      time: time + i,
      images: { [image]: { data: noise(8 * 65_536, `image${i}`), chunkSize: 65_536 } },
      archives: { [archive]: { data: noise(4 * 65_536, `archive${i}`), chunkSize: 65_536 } },
      compress: false,
    }),
  );
  const server = await PbsServer.start({ directory: store.path, ...options });
  const repository = withRetry(await openPbs(settingsFor(server, settings)), {
    firstWait: 10,
    maxWait: 100,
    giveUpAfter: 5000,
  });
  const [written] = all;
  assert.ok(written);
  return {
    server,
    repository,
    written,
    open: (id = '1', snapshotTime = time) =>
      repository.openSnapshot({ namespace: [], type: 'vm', id, time: snapshotTime }),
    digest: (i, name = image) => Buffer.from(written.chunks(name)[i]?.digest ?? '', 'hex'),
    async [Symbol.asyncDispose]() {
      await repository[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      store[Symbol.dispose]();
    },
  };
}

suite('a reader session', () => {
  test('is not opened by listing, describing or reading files and indexes', async () => {
    await using w = await world();
    const group = { namespace: [], type: 'vm', id: '1' } as const;
    await w.repository.listGroups([]);
    await w.repository.listSnapshots(group);
    await w.repository.describeSnapshot({ ...group, time });
    await using reader = await w.open();
    for (const name of ['index.json.blob', imageFile, archiveFile]) await reader.readFile(name);
    assert.equal(w.server.count('upgrade'), 0);
  });

  test('is opened once and shared by all archives and readers of a snapshot', async () => {
    await using w = await world();
    const readers = await Promise.all([w.open(), w.open()]);
    for (const reader of readers) await reader.readFile(imageFile);
    await readers[0]?.readFile(archiveFile);
    const chunks = readers.flatMap((reader) =>
      Array.from({ length: 8 }, (_, i) => reader.readChunk(w.digest(i))),
    );
    await Promise.all(chunks);
    await readers[0]?.readChunk(w.digest(2, archive));
    assert.equal(w.server.count('upgrade'), 1);
    assert.equal(w.server.count('index'), 2, 'each index is asked for once');
    const order = w.server.requests.map((request) => request.split(' ', 1)[0]);
    assert.ok(order.lastIndexOf('index') < order.indexOf('chunk'), 'indexes come before chunks');
  });

  test('ends when it is idle, lets the snapshot go, and comes back with its indexes', async () => {
    await using w = await world({ deadlines: { idle: 80 } });
    await using reader = await w.open();
    await reader.readFile(imageFile);
    const first = await reader.readChunk(w.digest(0));
    assert.deepEqual(w.server.openSessions.length, 1);
    await until('the session ends', async () => w.server.openSessions.length === 0);
    assert.deepEqual(await reader.readChunk(w.digest(0)), first);
    assert.equal(w.server.count('upgrade'), 2);
    assert.equal(w.server.count('index'), 2);
  });

  test('comes back after it and the ticket have ended', async () => {
    await using w = await world({ deadlines: { idle: 40 } });
    await using reader = await w.open();
    await reader.readFile(imageFile);
    await reader.readChunk(w.digest(0));
    await until('the session ends', async () => w.server.openSessions.length === 0);
    w.server.access.clockOffset += 3 * 3600;
    await reader.readChunk(w.digest(1));
    assert.equal(w.server.count('login'), 2);
  });

  test('survives a restart of the server in the middle of reads', async () => {
    await using w = await world();
    await using reader = await w.open();
    await reader.readFile(imageFile);
    const before = await Promise.all([0, 1, 2, 3].map((i) => reader.readChunk(w.digest(i))));
    const restarted = w.server.restart(200);
    const during = await Promise.all([0, 1, 2, 3].map((i) => reader.readChunk(w.digest(i))));
    await restarted;
    assert.deepEqual(during, before);
    assert.equal(w.server.openSessions.length, 1);
  });

  test('asks for an index once more where the server has forgotten it', async () => {
    await using w = await world();
    await using reader = await w.open();
    await reader.readFile(imageFile);
    w.server.faults.add({ on: 'chunk', fault: 'status-401', count: 1 });
    assert.ok(await reader.readChunk(w.digest(0)));
    assert.equal(w.server.count('index'), 2);
    assert.equal(w.server.count('upgrade'), 1);
    const foreign = reader.readChunk(Buffer.alloc(32, 1));
    await assert.rejects(foreign, expectError('failed', /does not hand out/));
  });

  test('leaves good archives alone when another index is broken on the server', async () => {
    await using w = await world();
    await using reader = await w.open();
    await reader.readFile(imageFile);
    await reader.readFile(archiveFile);
    rmSync(join(w.written.directory, archiveFile));
    assert.ok(await reader.readChunk(w.digest(0)));
    assert.ok(await reader.readChunk(w.digest(1)));
    assert.equal(w.server.count('index'), 2, 'the refusal is not repeated for each chunk');
  });

  test('ends with stale where the snapshot was replaced or removed meanwhile', async () => {
    await using w = await world({ deadlines: { idle: 40 } });
    await using reader = await w.open();
    await reader.readFile(imageFile);
    await reader.readChunk(w.digest(0));
    await until('the session ends', async () => w.server.openSessions.length === 0);
    const store = join(w.written.directory, '../../..');
    const other = { [image]: { data: noise(8 * 65_536, 'other'), chunkSize: 65_536 } };
    writeSnapshot(store, { group: 'vm/1', time, images: other });
    await assert.rejects(reader.readChunk(w.digest(0)), expectError('stale', /is another one/));
    await until('the session ends', async () => w.server.openSessions.length === 0);
    rmSync(w.written.directory, { recursive: true });
    await assert.rejects(reader.readChunk(w.digest(0)), expectError('stale', /removed/));
    await assert.rejects(reader.readFile(archiveFile), expectError('stale', /removed/));
  });

  test('that the server refuses for a lock is a clear error', async () => {
    await using w = await world();
    await using reader = await w.open();
    await reader.readFile(imageFile);
    w.server.locked.add(w.written.directory);
    await assert.rejects(reader.readChunk(w.digest(0)), (error) => {
      assert.ok(isPbsfsError(error, 'failed'));
      assert.match(error.message, /reader session: the server answers 400.*lock/);
      assert.match(error.hint ?? '', /may be locked by a running job/);
      assert.match(error.context.snapshot ?? '', /^vm\/1\//);
      return true;
    });
    w.server.locked.clear();
    assert.ok(await reader.readChunk(w.digest(0)));
  });

  test('says which chunk is missing, and goes on with the others', async () => {
    await using w = await world();
    await using reader = await w.open();
    await reader.readFile(imageFile);
    const hex = w.digest(3).toString('hex');
    damageChunk(join(w.written.directory, '../../..'), hex, 'missing');
    await assert.rejects(reader.readChunk(w.digest(3)), (error) => {
      assert.ok(isPbsfsError(error, 'chunk-missing'));
      assert.equal(error.context.digest, hex);
      return true;
    });
    assert.ok(await reader.readChunk(w.digest(4)));
    assert.equal(w.server.count('upgrade'), 1);
  });

  test('makes way for others: at most a few are open, and all are read', async () => {
    await using w = await world({ maxSessions: 3 }, { snapshots: 12 });
    const readers = await Promise.all(Array.from({ length: 12 }, (_, i) => w.open('1', time + i)));
    for (let round = 0; round < 3; round += 1) {
      const digests = await Promise.all(
        readers.map(async (reader) => {
          const index = await reader.readFile(imageFile);
          const digest = index.subarray(4096 + 32 * round, 4128 + 32 * round);
          const chunk = await reader.readChunk(digest);
          return sha256(chunk.subarray(12)).equals(digest);
        }),
      );
      assert.ok(digests.every(Boolean));
    }
    await until('few sessions stay', async () => w.server.openSessions.length <= 3);
  });
});

suite('a long line', () => {
  test('carries chunks of 16 MiB without waiting for windows', async () => {
    const size = 16 * 1024 * 1024;
    await using w = await world({}, { link: { latency: 50 } });
    writeSnapshot(join(w.written.directory, '../../..'), {
      group: 'vm/2',
      time,
      images: { [image]: { data: noise(2 * size, 'long'), chunkSize: size } },
      compress: false,
    });
    await using reader = await w.open('2');
    const index = await reader.readFile(imageFile);
    const started = performance.now();
    const digests = [index.subarray(4096, 4128), index.subarray(4128, 4160)];
    const chunks = await Promise.all(digests.map((digest) => reader.readChunk(digest)));
    for (const chunk of chunks) assert.equal(chunk.length, size + 12);
    // With the default windows of 64 KiB it would take 25 s for one of them.
    assert.ok(performance.now() - started < 10_000);
  });
});

suite('a reader who gives up', () => {
  test('is let go at once, and the session goes on', async () => {
    const link = { bandwidth: 2_000_000 };
    const data = noise(4 * 1024 * 1024, 'large');
    await using w = await world({}, { link });
    writeSnapshot(join(w.written.directory, '../../..'), {
      group: 'vm/2',
      time,
      images: { [image]: data },
      compress: false,
    });
    await using reader = await w.open('2');
    const digest = (await reader.readFile(imageFile)).subarray(4096, 4128);
    const controller = new AbortController();
    const given = reader.readChunk(digest, controller.signal);
    await sleep(300);
    controller.abort();
    const started = performance.now();
    await assert.rejects(given, expectError('aborted'));
    // The chunk needs two seconds on this line.
    assert.ok(performance.now() - started < 500);
    assert.equal((await reader.readChunk(digest)).length, data.length + 12);
    assert.equal(w.server.count('upgrade'), 1, 'the session goes on');
  });
});

suite('the end of a repository', () => {
  test('comes at once, with reads in flight and a server that is silent', async () => {
    await using w = await world({}, { link: {} });
    await using reader = await w.open();
    await reader.readFile(imageFile);
    await reader.readChunk(w.digest(0));
    assert.ok(w.server.link);
    w.server.link.blackhole = true;
    const reads = [
      reader.readChunk(w.digest(1)),
      reader.readFile(archiveFile),
      w.repository.listGroups([]),
    ].map((read) => assert.rejects(read, expectError('aborted')));
    await sleep(50);
    const started = performance.now();
    await w.repository[Symbol.asyncDispose]();
    assert.ok(performance.now() - started < 200);
    await Promise.all(reads);
    await assert.rejects(reader.readChunk(w.digest(2)), expectError('aborted'));
    await assert.rejects(w.repository.listGroups([]), expectError('aborted'));
  });

  test('leaves no descriptor and no timer behind', async () => {
    const descriptors = () => readdirSync('/proc/self/fd').length;
    const count = descriptors();
    for (let i = 0; i < 3; i += 1) {
      await using w = await world();
      await using reader = await w.open();
      await reader.readFile(imageFile);
      await Promise.all([0, 1, 2].map((chunk) => reader.readChunk(w.digest(chunk))));
      await w.server.restart();
      await reader.readChunk(w.digest(0));
    }
    for (let i = 0; i < 100 && descriptors() > count; i += 1) await sleep(10);
    assert.equal(descriptors(), count);
  });
});
