/** What a login may see of a server, and what is said of the rest. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { formatError, PbsfsError } from '../../src/errors.ts';
import { checkServer } from '../../src/repository/pbs/check-server.ts';
import { openPbs } from '../../src/repository/pbs/pbs-repository.ts';
import type { PbsSettings } from '../../src/repository/pbs/settings.ts';
import type { Repository } from '../../src/repository/repository.ts';
import { temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';
import { expectError } from '../support/expect-error.ts';
import { type Account, allRights } from '../support/pbs-server/access.ts';
import { settingsFor } from '../support/pbs-server/connect.ts';
import { PbsServer } from '../support/pbs-server/server.ts';

const secret = 'token-secret';
const reader = ['Datastore.Audit', 'Datastore.Read', 'Datastore.Verify'];
const root = '/datastore/store1';

function token(name: string, acl: Account['acl']): Account {
  return { authId: `u@pbs!${name}`, secret, acl };
}

const accounts: readonly Account[] = [
  token('all', { '/': allRights }),
  token('none', {}),
  token('customer', { [`${root}/a`]: reader }),
  token('deep', { [`${root}/a/b`]: reader }),
  token('audit', { [root]: ['Datastore.Audit'] }),
  token('backup', { [root]: ['Datastore.Backup'] }),
];
const time = 1_700_000_000;

suite('the rights of a login', () => {
  const store = temporaryDatastore();
  let server: PbsServer;

  before(async () => {
    const images = { 'drive-scsi0.img': Buffer.alloc(5000, 7) };
    for (const group of ['vm/1', 'ns/a/vm/2', 'ns/a/ns/b/vm/3', 'ns/c/vm/4']) {
      writeSnapshot(store.path, { group, time, images });
    }
    writeSnapshot(store.path, { group: 'vm/5', time, images, owner: 'u@pbs!backup' });
    mkdirSync(join(store.path, 'ns/empty'));
    server = await PbsServer.start({ directory: store.path, accounts });
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    store[Symbol.dispose]();
  });

  const settings = (name: string, overrides: Partial<PbsSettings> = {}): PbsSettings =>
    settingsFor(server, { authId: `u@pbs!${name}`, secret: async () => secret, ...overrides });
  const groupsOf = async (repository: Repository, ...namespace: string[]) =>
    (await repository.listGroups(namespace)).map(({ group }) => `${group.type}/${group.id}`);

  test('show one namespace to who may only see that one', async () => {
    await using repository = await openPbs(settings('customer'));
    assert.deepEqual(await repository.listNamespaces([]), [['a']]);
    assert.deepEqual(await repository.listNamespaces(['a']), [['a', 'b']]);
    assert.deepEqual(await groupsOf(repository), [], 'the root is only the way to it');
    assert.deepEqual(await groupsOf(repository, 'a'), ['vm/2']);
    await assert.rejects(repository.listGroups(['c']), (error) => {
      assert.equal(
        formatError(error),
        'u@pbs!customer is logged in and lacks Datastore.Audit on /datastore/store1/c (grant it the role DatastoreReader there; an API token needs a permission of its own, beside that of its user)',
      );
      return expectError('access-denied')(error);
    });
    const snapshot = { namespace: ['a'], type: 'vm', id: '2', time } as const;
    await using opened = await repository.openSnapshot(snapshot);
    assert.ok((await opened.readFile('drive-scsi0.img.fidx')).length > 4096);
  });

  test('lead through namespaces that may not be seen themselves', async () => {
    await using repository = await openPbs(settings('deep', { namespace: ['a', 'b'] }));
    assert.deepEqual(await repository.listNamespaces([]), [['a']]);
    assert.deepEqual(await groupsOf(repository, 'a'), []);
    assert.deepEqual(await groupsOf(repository, 'a', 'b'), ['vm/3']);
  });

  test('that are missing are named with the path, when the repository is opened', async () => {
    await assert.rejects(openPbs(settings('none')), (error) => {
      assert.match(
        formatError(error),
        /u@pbs!none.*lacks Datastore\.Audit on \/datastore\/store1 \(grant/,
      );
      return expectError('access-denied')(error);
    });
    const nowhere = openPbs(settings('customer', { namespace: ['nowhere'] }));
    await assert.rejects(nowhere, expectError('not-found', /nowhere/));
    await assert.rejects(
      openPbs(settings('all', { datastore: 'other' })),
      expectError('not-found', /'other' does not exist.*visible: store1/),
    );
  });

  test('to list without those to read say so when something is read', async () => {
    await using repository = await openPbs(settings('audit'));
    const snapshot = { namespace: [], type: 'vm', id: '1', time } as const;
    assert.equal((await repository.describeSnapshot(snapshot)).files.length, 2);
    await using opened = await repository.openSnapshot(snapshot);
    await assert.rejects(
      opened.readFile('drive-scsi0.img.fidx'),
      expectError('access-denied', /u@pbs!audit is logged in and lacks Datastore\.Read on/),
    );
  });

  test('of an owner show what it owns, and a warning where it owns nothing', async () => {
    const warnings: string[] = [];
    const logger = (_: string, message: string) => void warnings.push(message);
    await using repository = await openPbs(settings('backup', { logger }));
    assert.deepEqual(await groupsOf(repository), ['vm/5']);
    assert.deepEqual(warnings, []);
    assert.deepEqual(await groupsOf(repository, 'a'), []);
    assert.deepEqual(await groupsOf(repository, 'a'), []);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? '', /store1\/a: .*u@pbs!backup lacks Datastore\.Audit/);
    const snapshot = { namespace: [], type: 'vm', id: '5', time } as const;
    await using opened = await repository.openSnapshot(snapshot);
    assert.ok(await opened.readFile('index.json.blob'));
  });

  test('are no matter where a namespace is simply empty', async () => {
    const warnings: string[] = [];
    const logger = (_: string, message: string) => void warnings.push(message);
    await using repository = await openPbs(settings('all', { logger }));
    assert.deepEqual(await groupsOf(repository, 'empty'), []);
    assert.deepEqual(warnings, []);
  });

  test('are checked by doctor step by step, and the step that fails is the last', async () => {
    const stepsOf = async (wanted: PbsSettings) => {
      const steps: string[] = [];
      for await (const { step, detail, error } of checkServer(wanted)) {
        steps.push(`${step}: ${error === undefined ? 'ok' : error.code}: ${detail}`);
      }
      return steps;
    };
    const good = await stepsOf(settings('all', { host: 'localhost' }));
    assert.match(good[0] ?? '', /^name: ok: localhost is .*127\.0\.0\.1/);
    assert.match(good[1] ?? '', /^port: ok: localhost:\d+ accepts connections$/);
    assert.match(good[2] ?? '', /^certificate: ok: accepted by its fingerprint, until .*2120/);
    assert.equal(good[3], 'login: ok: logged in as u@pbs!all');
    assert.equal(good[4], 'rights: ok: the root shows 2 groups and 3 namespaces');
    assert.match(good[5] ?? '', /^chunk: ok: \d+ bytes of vm\/\d\/.*\.img\.fidx in \d+ ms$/);
    assert.equal(good.length, 6);
    const failing: readonly [PbsSettings, string][] = [
      [settings('all', { host: 'does-not-exist.invalid' }), 'name: unreachable'],
      [settings('all', { port: 1 }), 'port: unreachable'],
      [settings('all', { fingerprint: '00'.repeat(32) }), 'certificate: access-denied'],
      [settings('absent'), 'login: access-denied'],
      [settings('none'), 'rights: access-denied'],
      [settings('audit'), 'chunk: access-denied'],
    ];
    for (const [i, [wanted, last]] of failing.entries()) {
      const steps = await stepsOf(wanted);
      assert.equal(steps.length, i + 1, steps.join('\n'));
      assert.ok(steps.at(-1)?.startsWith(last), steps.at(-1));
    }
    const empty = await stepsOf(settings('all', { namespace: ['empty'] }));
    assert.match(empty[5] ?? '', /^chunk: ok: no finished backup/);
  });
});

test('notes come with all their lines, though listings have only the first', async () => {
  using store = temporaryDatastore();
  const notes = 'first line\nsecond, äöü';
  writeSnapshot(store.path, { group: 'vm/1', time, notes });
  writeSnapshot(store.path, { group: 'vm/1', time: time + 1 });
  await using server = await PbsServer.start({ directory: store.path });
  await using repository = await openPbs(settingsFor(server));
  const snapshot = { namespace: [], type: 'vm', id: '1', time } as const;
  assert.equal((await repository.describeSnapshot(snapshot)).comment, 'first line');
  assert.equal(
    server.requests.some((request) => request.includes('/notes?')),
    false,
  );
  assert.equal(await repository.readNotes(snapshot), notes);
  assert.equal(await repository.readNotes({ ...snapshot, time: time + 1 }), undefined);
  server.faults.add({ on: 'list', fault: 'status-404', count: 1 });
  assert.equal(await repository.readNotes(snapshot), 'first line', 'a server without that call');
  await assert.rejects(
    repository.readNotes({ ...snapshot, time: time + 2 }),
    expectError('not-found'),
  );
});

suite('a large datastore', () => {
  test('is asked for one group when one group is listed', async () => {
    using store = temporaryDatastore();
    const count = 20_000;
    writeSnapshot(store.path, { group: 'vm/1', time });
    await using server = await PbsServer.start({ directory: store.path });
    const group = { 'backup-type': 'host', 'backup-id': 'many' };
    const data = Array.from({ length: count }, (_, i) => ({
      ...group,
      'backup-time': time + ((i * 7919) % count),
      files: [{ filename: 'index.json.blob', size: 300 }],
      size: 300,
    }));
    server.answerInstead = ({ query }) =>
      query.get('backup-id') === 'many'
        ? { status: 200, body: Buffer.from(JSON.stringify({ data })), chunked: true }
        : undefined;
    await using repository = await openPbs(settingsFor(server));
    const before = server.requests.length;
    const one = { namespace: [], type: 'vm', id: '1' } as const;
    assert.equal((await repository.listSnapshots(one)).length, 1);
    await repository.describeSnapshot({ ...one, time });
    assert.deepEqual(server.requests.slice(before), [
      'list /api2/json/admin/datastore/store1/snapshots?backup-type=vm&backup-id=1',
    ]);
    const many = { namespace: [], type: 'host', id: 'many' } as const;
    const listed = await repository.listSnapshots(many);
    assert.equal(listed.length, count);
    assert.ok(listed.every(({ snapshot }, i) => snapshot.time === time + i));
    await Promise.all(
      listed.slice(0, 100).map(({ snapshot }) => repository.describeSnapshot(snapshot)),
    );
    assert.equal(server.requests.length - before, 2, 'one request for a hundred descriptions');
  });
});

suite('an S3 proxy that speaks the protocol', () => {
  test('is read as far as it goes', async () => {
    using store = temporaryDatastore();
    const data = Buffer.alloc(10_000, 'proxy');
    const written = writeSnapshot(store.path, {
      group: 'vm/1',
      time,
      images: { 'drive-scsi0.img': data },
      blobs: { 'qemu-server.conf': Buffer.from('cores: 2\n') },
    });
    await using server = await PbsServer.start({ directory: store.path, dialect: 's3-proxy' });
    await using repository = await openPbs(settingsFor(server));
    assert.deepEqual(await repository.listNamespaces([]), []);
    assert.deepEqual(await groupsOfRoot(repository), ['vm/1']);
    const absent = { namespace: [], type: 'vm', id: '9' } as const;
    await assert.rejects(repository.listSnapshots(absent), expectError('not-found'));
    assert.ok((await repository.status()).total > 0);
    const snapshot = { namespace: [], type: 'vm', id: '1', time } as const;
    await using opened = await repository.openSnapshot(snapshot);
    await opened.readFile('drive-scsi0.img.fidx');
    await opened.readFile('qemu-server.conf.blob');
    await assert.rejects(opened.readFile('absent.conf.blob'), expectError('not-found'));
    const [chunk] = written.chunks('drive-scsi0.img');
    assert.ok((await opened.readChunk(Buffer.from(chunk?.digest ?? '', 'hex'))).length > 0);
    await assert.rejects(opened.readChunk(Buffer.alloc(32)), expectError('chunk-missing'));
    server.access.clockOffset += 2 * 3600;
    assert.deepEqual(
      await groupsOfRoot(repository),
      ['vm/1'],
      'an expired ticket gets an empty 200',
    );
  });

  async function groupsOfRoot(repository: Repository): Promise<string[]> {
    return (await repository.listGroups([])).map(({ group }) => `${group.type}/${group.id}`);
  }
});

test('a message of ours never shows a secret', async () => {
  using store = temporaryDatastore();
  await using server = await PbsServer.start({ directory: store.path, accounts: [] });
  const hidden = 'hunter2-hunter2';
  for (const authId of ['u@pbs', 'u@pbs!t']) {
    const wanted = settingsFor(server, { authId, secret: async () => hidden });
    await assert.rejects(openPbs(wanted), (error) => {
      assert.ok(error instanceof PbsfsError);
      const { message, hint, cause, context } = error;
      assert.ok(!JSON.stringify([message, hint, String(cause), context]).includes(hidden));
      return true;
    });
  }
});
