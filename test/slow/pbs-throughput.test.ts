/** A fast line that is long: the windows of HTTP/2 must not be what limits it. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { openPbs } from '../../src/repository/pbs/pbs-repository.ts';
import { parseRepositoryString } from '../../src/repository/pbs/repository-string.ts';
import { temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';

const chunkSize = 16 * 1024 * 1024;
const time = 1_700_000_000;
const main = fileURLToPath(new URL('../support/pbs-server/main.ts', import.meta.url));

interface Started extends Disposable {
  readonly repository: string;
  readonly password: string;
  readonly fingerprint: string;
}

/** The server in a process of its own, so that it takes no time from the client. */
async function startServer(directory: string, link: object): Promise<Started> {
  const child: ChildProcess = spawn(
    process.execPath,
    [main, directory, '--switches', JSON.stringify({ link })],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  assert.ok(child.stdout);
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { ...JSON.parse(line), [Symbol.dispose]: () => child.kill() };
}

suite('chunks of 16 MiB over 50 ms', () => {
  test('come as fast as the line allows, 32 in flight', { timeout: 120_000 }, async () => {
    using store = temporaryDatastore();
    const data = Buffer.alloc(4 * chunkSize);
    randomFillSync(data);
    writeSnapshot(store.path, {
      group: 'vm/1',
      time,
      images: { 'a.img': { data, chunkSize } },
      compress: false,
    });
    const bandwidth = 25_000_000;
    using server = await startServer(store.path, { latency: 50, bandwidth });
    await using repository = await openPbs({
      ...parseRepositoryString(server.repository),
      fingerprint: server.fingerprint,
      secret: async () => server.password,
    });
    await using reader = await repository.openSnapshot({
      namespace: [],
      type: 'vm',
      id: '1',
      time,
    });
    const index = await reader.readFile('a.img.fidx');
    const digest = (i: number) => index.subarray(4096 + 32 * i, 4128 + 32 * i);
    await reader.readChunk(digest(0));
    const started = performance.now();
    const count = 32;
    const chunks = await Promise.all(
      Array.from({ length: count }, (_, i) => reader.readChunk(digest(i % 4))),
    );
    const seconds = (performance.now() - started) / 1000;
    for (const chunk of chunks) assert.equal(chunk.length, chunkSize + 12);
    const speed = (count * chunkSize) / seconds;
    console.log(`${(speed / 1e6).toFixed(1)} MB/s of ${bandwidth / 1e6}`);
    assert.ok(speed > 0.8 * bandwidth, `${speed} bytes per second`);
  });
});
