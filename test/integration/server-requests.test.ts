/** What a command or a look into a mount costs: requests to the server, memory, descriptors. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';
import { expectedSnapshots, goldenStore, readGolden } from '../support/golden.ts';
import { python, run, type StoreMount } from '../support/golden-mount.ts';
import type { Answer } from '../support/pbs-server/faults.ts';
import type { RestRequest } from '../support/pbs-server/rest-api.ts';
import { PbsServer } from '../support/pbs-server/server.ts';
import { needs } from '../support/requirements.ts';
import { mountServer, runOnServer } from '../support/server-mount.ts';
import { until } from '../support/until.ts';

const timeout = 120_000;
const time = 1_700_000_000;
const api = '/api2/json/admin/datastore/store1';
const chunk = 4 * 1024 * 1024;
const disk = createHash('shake256', { outputLength: 3 * chunk })
  .update('disk')
  .digest();

describe('requests of commands', { timeout }, () => {
  const store = temporaryDatastore();
  let server: PbsServer;
  before(async () => {
    writeSnapshot(store.path, {
      group: 'vm/100',
      time,
      notes: 'first line\nsecond',
      images: { 'drive-scsi0.img': disk },
      blobs: { 'qemu-server.conf': Buffer.from('cores: 2\n') },
    });
    server = await PbsServer.start({ directory: store.path });
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    store[Symbol.dispose]();
  });

  /** Their kinds, and the last parts of their paths. */
  async function requestsOf(...args: readonly string[]): Promise<string[]> {
    const before = server.requests.length;
    const { code, stderr } = await runOnServer(server, args);
    assert.equal(code, 0, stderr);
    return server.requests
      .slice(before)
      .map((request) => request.replace(api, '').replace(/&backup-(type|id|time)=[^&]*/g, ''));
  }

  const opening = ['login /api2/json/access/ticket', 'list /namespace', 'list /groups?ns='];
  const group = 'list /snapshots?backup-type=vm';
  const file = (name: string): string => `file /download?backup-type=vm&file-name=${name}`;

  test('are few, and none is made twice', async () => {
    assert.deepEqual(await requestsOf('ls'), opening);
    for (const flags of [['-l'], ['--json']]) {
      assert.deepEqual(await requestsOf('ls', ...flags, 'vm/100'), [...opening, group]);
    }
    const manifest = [...opening, group, file('index.json.blob')];
    const conf = file('qemu-server.conf.blob');
    assert.deepEqual(await requestsOf('cat', 'vm/100/qemu-server.conf'), [...manifest, conf]);
    const read = await requestsOf('cat', 'vm/100/drive-scsi0.img');
    const [upgrade = '', index = '', ...chunks] = read.slice(manifest.length + 1);
    assert.deepEqual(read.slice(0, manifest.length + 1), [
      ...manifest,
      file('drive-scsi0.img.fidx'),
    ]);
    assert.match(upgrade, /^upgrade /);
    assert.equal(index, 'index /download?file-name=drive-scsi0.img.fidx');
    assert.equal(chunks.length, 3);
    assert.ok(chunks.every((request) => request.startsWith('chunk ')));
  });

  test('of a large datastore are for the group that is listed', async () => {
    const perGroup = 20;
    const id = (query: URLSearchParams): Record<string, string | null> => ({
      'backup-type': query.get('backup-type'),
      'backup-id': query.get('backup-id'),
    });
    const large: Record<string, (query: URLSearchParams) => object[]> = {
      groups: () =>
        Array.from({ length: 1000 }, (_, i) => ({
          'backup-type': 'ct',
          'backup-id': String(i),
          'last-backup': time,
        })),
      snapshots: (query) => {
        assert.ok(query.has('backup-id'), 'not the whole datastore');
        const count = query.get('backup-id') === '999' ? 20_000 : perGroup;
        const files = [{ filename: 'index.json.blob', size: 300 }];
        return Array.from({ length: count }, (_, i) => ({
          ...id(query),
          'backup-time': time + i,
          files,
          size: 300,
          comment: 'x',
        }));
      },
    };
    server.answerInstead = ({ path, query }: RestRequest): Answer | undefined => {
      const data = large[path.split('/').at(-1) ?? '']?.(query);
      return data && { status: 200, body: Buffer.from(JSON.stringify({ data })), chunked: true };
    };
    try {
      assert.deepEqual(await requestsOf('ls', 'ct/500'), [
        ...opening,
        'list /snapshots?backup-type=ct',
      ]);
      const started = performance.now();
      const { stdout } = await runOnServer(server, ['ls', '--json', 'ct/999']);
      assert.equal((JSON.parse(stdout.toString()) as unknown[]).length, 20_001);
      assert.ok(performance.now() - started < 15_000);
    } finally {
      server.answerInstead = () => undefined;
    }
  });
});

describe('ls --json of a golden server', { skip: needs('golden'), timeout }, () => {
  test('has the fields of the real one', async () => {
    await using server = await PbsServer.start({ directory: goldenStore });
    const capture = JSON.parse(readGolden('server/rest/snapshots-vm100.json').toString());
    const { stdout } = await runOnServer(server, ['ls', '--json', 'vm/100']);
    const listed = JSON.parse(stdout.toString()) as Record<string, unknown>[];
    const bySeconds = new Map(listed.map((entry) => [entry['backup-time'], entry]));
    for (const { files, size, ...fields } of capture.body.data) {
      const entry = bySeconds.get(fields['backup-time']) ?? {};
      for (const [name, value] of Object.entries(fields))
        assert.deepEqual(entry[name], value, name);
      // The manifest counts for the real one, and grows with each note.
      const isData = ({ filename }: { filename: string }): boolean =>
        filename !== 'index.json.blob';
      const names = (entry['files'] as { filename: string }[]).filter(isData);
      assert.deepEqual(names, files.filter(isData));
      const manifest = files.find((file: { filename: string }) => !isData(file));
      assert.equal(entry['size'], size - manifest.size);
    }
  });
});

const skip = needs('golden', 'fuse', 'root', 'python3');
describe('a mount of a golden server 20 ms away', { skip, timeout }, () => {
  let server: PbsServer;
  let mount: StoreMount;
  before(async () => {
    server = await PbsServer.start({ directory: goldenStore, link: { latency: 10 } });
    mount = await mountServer(server);
  });
  after(async () => {
    await mount[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  async function requestsOf(action: () => Promise<unknown>): Promise<Record<string, number>> {
    const before = server.requests.length;
    await action();
    const counts: Record<string, number> = {};
    for (const request of server.requests.slice(before)) {
      const [kind = '', path = ''] = request.split(' ');
      const name = kind === 'list' ? (path.split('?', 1)[0]?.split('/').at(-1) ?? '') : kind;
      counts[name] = (counts[name] ?? 0) + 1;
    }
    return counts;
  }

  test('is asked once for what ls -lR of virtual machines shows, and for no chunk', async () => {
    const machines = expectedSnapshots().filter(
      ({ ns, group }) => ns === '' && group.startsWith('vm/'),
    );
    const files = machines
      .flatMap(({ archives }) => Object.keys(archives))
      .filter((name) => /^[^.]/.test(name));
    const groups = new Set((await readdir(`${goldenStore}/vm`)).filter((id) => id !== '103')).size;
    const list = async (): Promise<void> => {
      await run('ls', '-lR', mount.at('vm'));
    };
    const counts = await requestsOf(list);
    assert.ok((counts['groups'] ?? 0) <= 2);
    assert.ok((counts['snapshots'] ?? 0) <= groups + 2);
    assert.equal(counts['file'], files.length);
    const { groups: _, snapshots: __, file: ___, ...others } = counts;
    assert.deepEqual(others, {});
    const again = await requestsOf(list);
    assert.equal(again['file'], undefined);
  });

  test('is asked for little by find in an archive', async () => {
    const archive = 'host/alpha/2023-11-14T22:13:20Z/root.pxar';
    const counts = await requestsOf(async () => {
      assert.ok((await run('find', mount.at(archive), '-size', '+100k')).length > 0);
    });
    assert.ok((counts['file'] ?? 0) <= 3, 'the manifest and two indexes');
    assert.equal(counts['upgrade'], 1);
    assert.ok((counts['chunk'] ?? 0) <= 4);
    const again = await requestsOf(() => run('find', mount.at(archive), '-size', '+100k'));
    for (const kind of ['file', 'upgrade', 'index', 'chunk']) assert.equal(again[kind], undefined);
  });
});

describe('a mount that is opened and closed a thousand times', {
  skip: needs('fuse', 'root', 'python3'),
  timeout,
}, () => {
  const openings = `
import os, random, sys
random.seed(int(sys.argv[2]))
for i in range(1000):
    fd = os.open(sys.argv[1], os.O_RDONLY | (os.O_DIRECT if i % 50 == 0 else 0))
    if i % 10 == 0: os.lseek(fd, random.randrange(${disk.length}), os.SEEK_DATA)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    if i % 50: assert len(os.pread(fd, 512, random.randrange(${disk.length} - 512))) == 512
    os.close(fd)
`;

  test('gives back memory and descriptors, after faults too', async () => {
    using store = temporaryDatastore();
    const images = { 'drive-scsi0.img': disk };
    writeSnapshot(store.path, { group: 'vm/100', time, images, compress: false });
    await using server = await PbsServer.start({ directory: store.path });
    await using mount = await mountServer(server);
    const { pid = 0 } = mount.served.child;
    const descriptors = (): number => readdirSync(`/proc/${pid}/fd`).length;
    const memory = (): number =>
      1024 * Number(/^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
    const image = mount.at('vm/100/latest/drive-scsi0.img');
    await python(openings, image, '1');
    const [openBefore, memoryBefore] = [descriptors(), memory()];
    for (let round = 0; round < 3; round += 1) {
      const opened = python(openings, image, String(round + 2));
      server.dropConnections();
      await opened;
      await server.restart();
    }
    await python(openings, image, '9');
    await until('descriptors come back', async () => descriptors() <= openBefore);
    const grown = memory() - memoryBefore;
    assert.ok(grown < 48 * 1024 * 1024, `${Math.round(grown / 1024 / 1024)} MiB more`);
    assert.ok(server.openConnections <= 8);
  });
});
