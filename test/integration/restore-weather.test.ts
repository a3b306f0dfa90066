/** An image restored from a server in bad weather: every byte is right, or its range is named. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { startCli } from '../cli/run-cli.ts';
import {
  temporaryDatastore,
  type WrittenChunk,
  type WrittenSnapshot,
  writeSnapshot,
} from '../support/encode-datastore.ts';
import type { Fault } from '../support/pbs-server/faults.ts';
import { PbsServer } from '../support/pbs-server/server.ts';
import { runOnServer, serverEnvironment } from '../support/server-mount.ts';
import { livingShortly } from '../support/short-lives.ts';
import { until } from '../support/until.ts';

const chunkSize = 256 * 1024;
const chunks = 96;
const path = 'vm/100/latest/drive-scsi0.img';
const store = temporaryDatastore();
const target = join(store.path, 'restored.img');
const data = createHash('shake256', { outputLength: chunks * chunkSize - 1000 })
  .update('restore')
  .digest();
data.fill(0, 10 * chunkSize, 14 * chunkSize);
const passing: readonly Fault[] = [
  'status-500',
  'status-503',
  'drop',
  'reset',
  'goaway',
  'slow',
  'stall',
  'truncate',
];
const env = livingShortly({
  deadlines: { connect: 2000, headers: 300, chunk: 300, progress: 300, ping: 500 },
  retry: { firstWait: 10, maxWait: 100, giveUpAfter: 60_000 },
});

describe('restoring an image from a server', { timeout: 120_000 }, () => {
  let written: WrittenSnapshot;
  let server: PbsServer;
  before(async () => {
    const images = { 'drive-scsi0.img': { data, chunkSize } };
    written = writeSnapshot(store.path, {
      group: 'vm/100',
      time: 1_700_000_000,
      images,
      compress: false,
    });
    server = await PbsServer.start({ directory: store.path, link: {} });
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    store[Symbol.dispose]();
  });
  afterEach(() => {
    server.faults.clear();
    if (server.link !== undefined) server.link.bandwidth = 0;
    rmSync(target, { force: true });
  });

  for (const where of ['a file', 'a pipe']) {
    test(`to ${where} goes on with the right bytes, whatever passes`, async () => {
      let [asked, injected] = [0, 0];
      server.faults.choose = ({ kind }) => {
        if (kind !== 'chunk') return undefined;
        asked += 1;
        return asked % 4 === 0 ? passing[injected++ % passing.length] : undefined;
      };
      const to = where === 'a file' ? target : '-';
      const { code, stdout, stderr } = await runOnServer(server, ['restore', path, to], { env });
      assert.equal(code, 0, stderr);
      assert.ok((to === '-' ? stdout : readFileSync(target)).equals(data));
      assert.ok(injected >= passing.length, `${injected} faults`);
    });
  }

  test('names a chunk whose bytes are wrong, leaves zeros in its place, and exits with 6', async () => {
    const { digest = '' } = written.chunks('drive-scsi0.img')[20] ?? {};
    server.faults.choose = (request) => {
      return request.kind === 'chunk' && request.path.includes(digest) ? 'wrong-bytes' : undefined;
    };
    const { code, stderr } = await runOnServer(server, ['restore', path, target], { env });
    assert.equal(code, 6, stderr);
    assert.match(stderr, new RegExp(`offset ${20 * chunkSize}\\b.*${digest}`));
    const expected = Buffer.from(data).fill(0, 20 * chunkSize, 21 * chunkSize);
    assert.ok(readFileSync(target).equals(expected));
  });

  test('goes on after kill -9 where it was, and fetches only what is missing', async () => {
    assert.ok(server.link);
    server.link.bandwidth = 16 * 1024 * 1024;
    const restoring = startCli(['restore', path, target], {
      env: { ...serverEnvironment(server), ...env },
    });
    const chunksThere = (): readonly WrittenChunk[] => {
      const there = existsSync(target) ? readFileSync(target) : Buffer.alloc(0);
      return written
        .chunks('drive-scsi0.img')
        .filter(({ start, end }) => there.subarray(start, end).equals(data.subarray(start, end)));
    };
    await until('a third is there', async () => chunksThere().length > chunks / 3);
    restoring.kill('SIGKILL');
    await once(restoring, 'close');
    const kept = chunksThere();
    assert.ok(kept.length < chunks, 'it was killed before its end');
    server.link.bandwidth = 0;
    const fetched: string[] = [];
    server.faults.choose = ({ kind, path: asked }) => {
      if (kind === 'chunk') fetched.push(asked);
      return undefined;
    };
    const call = ['restore', path, target, '--resume'];
    const { code, stderr } = await runOnServer(server, call, { env });
    assert.equal(code, 0, stderr);
    assert.ok(readFileSync(target).equals(data));
    assert.ok(fetched.length > 0, 'something was missing');
    for (const { digest } of kept) {
      assert.ok(!fetched.some((asked) => asked.includes(digest)), `${digest} was there`);
    }
  });
});
