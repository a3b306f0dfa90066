/**
 * Bad weather, through everything that a read goes through: each read gives the right bytes or an error within
 * its deadline, never wrong bytes and never nothing.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { openImage } from '../../src/archives/image.ts';
import { KeyRing } from '../../src/archives/key-ring.ts';
import { SnapshotArchives } from '../../src/archives/snapshot-archives.ts';
import { formatError, isPbsfsError } from '../../src/errors.ts';
import { readBytes } from '../../src/read-at.ts';
import { openPbs } from '../../src/repository/pbs/pbs-repository.ts';
import type { Repository } from '../../src/repository/repository.ts';
import { withRetry } from '../../src/repository/with-retry.ts';
import { sha256, temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';
import { settingsFor } from '../support/pbs-server/connect.ts';
import { type Fault, faultNames, type RequestKind } from '../support/pbs-server/faults.ts';
import { PbsServer } from '../support/pbs-server/server.ts';

const snapshot = { namespace: [], type: 'vm', id: '1', time: 1_700_000_000 } as const;
const image = 'drive-scsi0.img.fidx';
const config = Buffer.from('cores: 2\nname: weather\n');
const chunkSize = 65_536;
const chunkCount = 24;
const data = Buffer.concat(
  Array.from({ length: (chunkCount * chunkSize) / 32 }, (_, i) => sha256(Buffer.from(`${i}`))),
);

const deadlines = { connect: 5000, headers: 300, chunk: 300, progress: 300, ping: 300 };
const retry = { firstWait: 10, maxWait: 100, giveUpAfter: 20_000 };

const kinds = ['login', 'list', 'file', 'upgrade', 'index', 'chunk'] as const;
/** What a second try mends. */
const passing: readonly Fault[] = [
  'status-500',
  'status-503',
  'html-502',
  'html-200',
  'silence',
  'stall',
  'drop',
  'reset',
  'goaway',
  'slow',
];

/** Those that cost a deadline. */
const waiting: readonly Fault[] = ['silence', 'stall'];

/** Within a session nothing stands between that could answer with a page. */
function passingFor(kind: RequestKind): readonly Fault[] {
  return kind === 'index' || kind === 'chunk'
    ? passing.filter((fault) => !fault.startsWith('html'))
    : passing;
}

/** A generator of numbers in [0, 1) that starts anew with each seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

suite('faults of the server', () => {
  const store = temporaryDatastore();
  let server: PbsServer;

  before(async () => {
    writeSnapshot(store.path, {
      group: 'vm/1',
      time: snapshot.time,
      images: { 'drive-scsi0.img': { data, chunkSize } },
      blobs: { 'qemu-server.conf': config },
      compress: false,
    });
    server = await PbsServer.start({ directory: store.path, link: {} });
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    store[Symbol.dispose]();
  });

  const open = async (): Promise<Repository> =>
    withRetry(await openPbs(settingsFor(server, { deadlines })), retry);

  /** Reads everything, checked as a mount checks it. */
  async function readAll(repository: Repository): Promise<Buffer> {
    await repository.listSnapshots(snapshot);
    await using archives = await SnapshotArchives.open(repository, snapshot, new KeyRing());
    const conf = await archives.readBlob('qemu-server.conf.blob');
    const reader = await openImage(archives, image);
    return Buffer.concat([conf, await readBytes(reader, 0, reader.size)]);
  }
  const whole = Buffer.concat([config, data]);

  async function tryFault(on: RequestKind, fault: Fault): Promise<string> {
    await using repository = await open();
    if (on === 'login') server.access.clockOffset += 3 * 3600;
    server.faults.add({ on, fault, count: waiting.includes(fault) ? 1 : 2 });
    const started = performance.now();
    try {
      assert.deepEqual(await readAll(repository), whole);
      return 'right';
    } catch (error) {
      assert.ok(isPbsfsError(error), String(error));
      assert.notEqual(error.code, 'bug', formatError(error));
      return error.code;
    } finally {
      assert.ok(performance.now() - started < 10_000, `${on} ${fault} takes too long`);
      server.faults.clear();
    }
  }

  for (const kind of kinds) {
    test(`that pass are not noticed: ${kind}`, async () => {
      for (const fault of passingFor(kind)) {
        assert.equal(await tryFault(kind, fault), 'right', fault);
      }
    });
  }

  test('that do not pass are an error of the right kind, and never wrong bytes', async () => {
    const outcomes: Record<string, string> = {};
    for (const fault of faultNames.filter((name) => !passing.includes(name))) {
      for (const kind of kinds) {
        // A changed byte in a listing can be a changed name: nothing protects those but TLS.
        if (fault === 'wrong-bytes' && (kind === 'list' || kind === 'login')) continue;
        outcomes[`${kind} ${fault}`] = await tryFault(kind, fault);
      }
    }
    assert.deepEqual(outcomes, {
      'login status-400': 'failed',
      'list status-400': 'failed',
      'file status-400': 'failed',
      'upgrade status-400': 'failed',
      // Its chunks are not allowed then, so it is asked for once more.
      'index status-400': 'right',
      'chunk status-400': 'chunk-missing',
      'login status-401': 'access-denied',
      'list status-401': 'access-denied',
      'file status-401': 'access-denied',
      'upgrade status-401': 'access-denied',
      'index status-401': 'right',
      'chunk status-401': 'right',
      'login status-403': 'access-denied',
      'list status-403': 'access-denied',
      'file status-403': 'access-denied',
      'upgrade status-403': 'access-denied',
      'index status-403': 'right',
      'chunk status-403': 'access-denied',
      'login status-404': 'failed',
      'list status-404': 'failed',
      'file status-404': 'failed',
      'upgrade status-404': 'failed',
      'index status-404': 'right',
      'chunk status-404': 'chunk-missing',
      'login truncate': 'right',
      'list truncate': 'corrupt',
      'file truncate': 'corrupt',
      'upgrade truncate': 'right',
      'index truncate': 'right',
      'chunk truncate': 'right',
      'file wrong-bytes': 'corrupt',
      'upgrade wrong-bytes': 'right',
      'index wrong-bytes': 'right',
      'chunk wrong-bytes': 'corrupt',
    });
  });

  test('of the line: a half-open connection is found and replaced', async () => {
    const { link } = server;
    assert.ok(link);
    await using repository = await open();
    assert.deepEqual(await readAll(repository), whole);
    link.blackhole = true;
    setTimeout(() => {
      link.blackhole = false;
    }, 700);
    assert.deepEqual(await readAll(repository), whole);
    link.cut();
    assert.deepEqual(await readAll(repository), whole);
  });

  test('for good end in an error within the time that is set', async () => {
    const settings = settingsFor(server, { deadlines });
    await using repository = withRetry(await openPbs(settings), { ...retry, giveUpAfter: 600 });
    await readAll(repository);
    server.faults.choose = () => 'silence';
    const started = performance.now();
    await assert.rejects(readAll(repository), (error) => isPbsfsError(error, 'timeout'));
    assert.ok(performance.now() - started < 3000);
    server.faults.clear();
    assert.deepEqual(await readAll(repository), whole);
  });

  test('a thousand of them in random order lose nothing to ten readers', {
    timeout: 120_000,
  }, async () => {
    const seed = Number(process.env['PBSFS_SEED'] ?? Date.now() % 1_000_000);
    const random = randomOf(seed);
    const descriptors = () => readdirSync('/proc/self/fd').length;
    const before = descriptors();
    let injected = 0;
    server.faults.choose = ({ kind }) => {
      if (injected >= 1000 || random() > 0.5) return undefined;
      injected += 1;
      if (kind === 'chunk' && random() < 0.1) return 'truncate';
      const faults = passingFor(kind);
      const fault = faults[Math.floor(random() * faults.length)];
      // A tenth of them would make the test wait for nothing else.
      return fault !== undefined && waiting.includes(fault) && random() < 0.75 ? 'drop' : fault;
    };
    const repository = withRetry(await openUntilGood(), { ...retry, giveUpAfter: 60_000 });
    let reads = 0;
    const reader = async () => {
      while (injected < 1000) {
        await using opened = await repository.openSnapshot(snapshot);
        const index = await opened.readFile(image);
        for (let i = 0; i < 12; i += 1) {
          const at = 4096 + 32 * Math.floor(random() * chunkCount);
          const digest = index.subarray(at, at + 32);
          const raw = await opened.readChunk(digest);
          assert.ok(sha256(raw.subarray(12)).equals(digest), `wrong bytes, seed ${seed}`);
          reads += 1;
        }
      }
    };
    try {
      await Promise.all(Array.from({ length: 10 }, reader));
    } catch (error) {
      throw new Error(`seed ${seed}: ${formatError(error)}`, { cause: error });
    } finally {
      server.faults.clear();
      await repository[Symbol.asyncDispose]();
    }
    assert.equal(injected, 1000);
    assert.ok(reads >= 120);
    for (let i = 0; i < 200 && descriptors() > before; i += 1) await new Promise(setImmediate);
    assert.ok(descriptors() <= before, 'descriptors come back');
  });

  /** Opening is not retried by itself: whoever opens is there to see why it fails. */
  async function openUntilGood(): Promise<Repository> {
    for (;;) {
      try {
        return await openPbs(settingsFor(server, { deadlines }));
      } catch (error) {
        assert.ok(isPbsfsError(error, 'unreachable', 'timeout'), formatError(error));
      }
    }
  }
});
