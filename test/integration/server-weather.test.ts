/** A mount of a server in bad weather: reads go on with the right bytes or fail in time, and nothing hangs. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, hash } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCli } from '../cli/run-cli.ts';
import {
  temporaryDatastore,
  type WrittenSnapshot,
  writeSnapshot,
} from '../support/encode-datastore.ts';
import type { StoreMount } from '../support/golden-mount.ts';
import { PbsServer } from '../support/pbs-server/server.ts';
import { needs } from '../support/requirements.ts';
import { logins, mountServer, type ServerCall } from '../support/server-mount.ts';
import { type Lives, livingShortly } from '../support/short-lives.ts';
import { until } from '../support/until.ts';

const chunk = 4 * 1024 * 1024;
const chunks = 10;
const time = 1_700_000_000;
const image = 'vm/100/latest/drive-scsi0.img';
const store = temporaryDatastore();
const data = noise(chunks * chunk, 'image');

/** Bytes that do not repeat. */
function noise(length: number, seed: string): Buffer {
  return createHash('shake256', { outputLength: length }).update(seed).digest();
}

function write(group: string, at: number, content: Buffer): WrittenSnapshot {
  const images = { 'drive-scsi0.img': content };
  return writeSnapshot(store.path, { group, time: at, images, compress: false });
}

/** A program that reads, with what it gave. */
class Reader {
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  readonly #hash = createHash('sha256');
  bytes = 0;
  stderr = '';

  constructor(program: string, ...args: readonly string[]) {
    this.child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, LC_ALL: 'C' },
    });
    this.child.stdout?.on('data', (part: Buffer) => {
      this.bytes += part.length;
      this.#hash.update(part);
    });
    this.child.stderr?.on('data', (part: Buffer) => {
      this.stderr += part.toString();
    });
    this.ended = once(this.child, 'close').then(([code]) => code as number | null);
  }

  get sha256(): string {
    return this.#hash.digest('hex');
  }
}

/** Copies a file while copies of its descriptor are closed all the time. */
const sharing = `
import os, sys, threading
fd = os.open(sys.argv[1], os.O_RDONLY)
done = threading.Event()
def close_copies():
    while not done.wait(0.01): os.close(os.dup(fd))
closing = threading.Thread(target=close_copies)
closing.start()
while part := os.read(fd, 100000): os.write(1, part)
done.set()
closing.join()
`;

/** Milliseconds that `action` takes. */
async function timed(action: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await action();
  return performance.now() - started;
}

const skip = needs('fuse', 'root');
describe('a mount of a server', { skip, timeout: 120_000 }, () => {
  let server: PbsServer;
  before(async () => {
    write('vm/100', time, data);
    server = await PbsServer.start({
      directory: store.path,
      accounts: Object.values(logins),
      link: {},
    });
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    store[Symbol.dispose]();
  });
  afterEach(() => {
    server.faults.clear();
    if (server.link !== undefined) server.link.bandwidth = 0;
  });

  const sha256 = hash('sha256', data);

  async function mountShortly(lives: Lives, call: ServerCall = {}): Promise<StoreMount> {
    const env = { ...livingShortly(lives), ...call.env };
    return await mountServer(server, ['--cache-chunks', '1', '--prefetch', '2'], { ...call, env });
  }

  /** Starts `dd` and waits until it has read something. */
  async function startDd(mount: StoreMount, ...args: readonly string[]): Promise<Reader> {
    const reader = new Reader('dd', `if=${mount.at(image)}`, 'bs=256K', 'status=none', ...args);
    await until('dd reads', async () => reader.bytes > 0);
    return reader;
  }

  function slowDown(): void {
    assert.ok(server.link);
    server.link.bandwidth = 25 * 1024 * 1024;
  }

  test('goes on with the right bytes when the server is restarted, and when connections break', async () => {
    await using mount = await mountServer(server);
    slowDown();
    const reader = await startDd(mount);
    await server.restart(500);
    for (let i = 0; i < 3; i += 1) {
      await sleep(150);
      server.link?.cut();
    }
    assert.equal(await reader.ended, 0, reader.stderr);
    assert.equal(reader.sha256, sha256);
    assert.equal(mount.served.stderr, '');
    assert.ok(server.count('upgrade') > 2);
  });

  const short = { connect: 500, headers: 300, chunk: 300, progress: 300, ping: 500 };
  const brief: Lives = { deadlines: short, retry: { giveUpAfter: 400 } };

  test('fails within the deadlines where the server stalls, with nothing in the place of the bytes', async () => {
    await using mount = await mountShortly(brief);
    const attempts = [
      ['silence', 'iflag=direct'],
      ['stall', 'iflag=fullblock'],
    ] as const;
    for (const [fault, flag] of attempts) {
      server.faults.choose = ({ kind }) => (kind === 'chunk' ? fault : undefined);
      const reader = new Reader('dd', `if=${mount.at(image)}`, 'bs=256K', flag);
      const duration = await timed(() => reader.ended);
      assert.match(reader.stderr, /Connection timed out|Input\/output error/);
      assert.equal(reader.bytes, 0);
      assert.ok(duration < 5000, `${fault}: ${duration} ms`);
    }
    assert.match(
      mount.served.stderr,
      /vm\/100\/2023-11-14T22:13:20Z: drive-scsi0\.img\.fidx: at offset 0/,
    );
    server.faults.clear();
    const after = new Reader('dd', `if=${mount.at(image)}`, 'bs=256K', 'status=none');
    assert.equal(await after.ended, 0, after.stderr);
    assert.equal(after.sha256, sha256);
  });

  test('reads on after the lives of its session and its ticket', async () => {
    await using mount = await mountShortly({ deadlines: { idle: 200 } });
    const read = async (...args: readonly string[]): Promise<void> => {
      const reader = await startDd(mount, 'iflag=direct', ...args);
      assert.equal(await reader.ended, 0, reader.stderr);
      assert.equal(reader.sha256, hash('sha256', data.subarray(0, reader.bytes)));
    };
    await read('count=16');
    await until('the session ends', async () => server.openSessions.length === 0);
    server.access.clockOffset += 3 * 3600;
    const logins = server.count('login');
    await read();
    assert.ok(server.count('login') > logins);
    assert.equal(mount.served.stderr, '');
  });

  test('lets killed readers go at once, and stops to ask for what they wanted', async () => {
    await using mount = await mountServer(server);
    server.faults.choose = ({ kind }) => (kind === 'chunk' ? 'silence' : undefined);
    const path = mount.at(image);
    for (const command of [
      ['cat', path],
      ['dd', `if=${path}`, 'bs=1M'],
      ['dd', `if=${path}`, 'bs=1M', 'iflag=direct'],
    ]) {
      const [program = '', ...args] = command;
      const reader = new Reader(program, ...args);
      await until('a chunk is asked for', async () => server.openStreams > 0);
      reader.child.kill('SIGKILL');
      assert.ok((await timed(() => reader.ended)) < 1000, command.join(' '));
      await until('the request is cancelled', async () => server.openStreams === 0);
    }
    assert.equal(mount.served.stderr, '');
  });

  test('disturbs nobody who reads on when others close the file or are killed', async () => {
    await using mount = await mountShortly({});
    slowDown();
    const path = mount.at(image);
    const readers = [
      new Reader('dd', `if=${path}`, 'bs=64K'),
      new Reader('python3', '-c', sharing, path),
    ];
    for (let i = 0; i < 8; i += 1) {
      const other = new Reader('cat', path);
      await sleep(100);
      other.child.kill('SIGKILL');
      await other.ended;
    }
    for (const reader of readers) {
      assert.equal(await reader.ended, 0, reader.stderr);
      assert.equal(reader.sha256, sha256);
    }
    assert.equal(mount.served.stderr, '');
  });

  test('shows new snapshots, and fails for a pruned one alone', async () => {
    const first = noise(3 * chunk, 'first');
    const second = noise(3 * chunk, 'second');
    const pruned = write('vm/7', time, first);
    await using mount = await mountShortly({ deadlines: { idle: 100 } });
    const [, name = ''] = /([^/]+)$/.exec(pruned.path) ?? [];
    const path = mount.at('vm/7', name, 'drive-scsi0.img');
    const head = new Reader(
      'dd',
      `if=${path}`,
      'bs=4096',
      'count=1',
      'status=none',
      'iflag=direct',
    );
    assert.equal(await head.ended, 0);
    assert.equal(await readlink(mount.at('vm/7/latest')), name);
    await until('the session ends', async () => server.openSessions.length === 0);
    write('vm/7', time + 86_400, second);
    rmSync(pruned.directory, { recursive: true });
    const rest = new Reader('dd', `if=${path}`, 'bs=4096', 'skip=2048', 'iflag=direct');
    assert.equal(await rest.ended, 1);
    assert.match(rest.stderr, /Stale file handle|Input\/output error/);
    assert.equal(rest.bytes, 0);
    await until(
      'the listing is new',
      async () =>
        (await readdir(mount.at('vm/7'))).length === 2 &&
        !(await readdir(mount.at('vm/7'))).includes(name),
    );
    const latest = await readFile(mount.at('vm/7/latest/drive-scsi0.img'));
    assert.ok(latest.equals(second));
  });

  describe('that is gone for good', () => {
    async function mountOfLost(): Promise<{ mount: StoreMount; lost: PbsServer }> {
      const lost = await PbsServer.start({
        directory: store.path,
        accounts: Object.values(logins),
      });
      return { mount: await mountServer(lost), lost };
    }

    test('ends at once by SIGTERM, and with it who reads', async () => {
      const { mount, lost } = await mountOfLost();
      await using _ = mount;
      lost.faults.choose = ({ kind }) => (kind === 'chunk' ? 'silence' : undefined);
      const reader = new Reader('cat', mount.at(image));
      await until('a chunk is asked for', async () => lost.openStreams > 0);
      await lost[Symbol.asyncDispose]();
      const duration = await timed(() => mount.served.stop('SIGTERM'));
      assert.ok(duration < 3000, `${duration} ms`);
      assert.equal(await reader.ended, 1);
      assert.equal(reader.bytes, 0);
      assert.match(mount.served.stderr, /^pbsfs: warning: .* is in use by cat \(pid \d+\).*\n$/);
    });

    test('ends at once by umount', async () => {
      const { mount, lost } = await mountOfLost();
      await using _ = mount;
      await readdir(mount.at('vm/100'));
      await lost[Symbol.asyncDispose]();
      const duration = await timed(async () => {
        assert.equal((await runCli(['umount', mount.path])).code, 0);
        assert.equal(await mount.served.ended, 0);
      });
      assert.ok(duration < 4000, `${duration} ms`);
      assert.equal(mount.served.stderr, '');
    });
  });
});
