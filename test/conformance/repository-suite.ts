/**
 * What every repository has to do, whatever holds the backups: run on the golden datastore as a directory, behind
 * a server, in a bucket, and through each wrapper.
 *
 *   repositorySuite('datastore', async () => { … return { repository, [Symbol.asyncDispose]: … }; });
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, formatError, isPbsfsError } from '../../src/errors.ts';
import { decodeIndex } from '../../src/formats/chunk-index.ts';
import { decodeBlob } from '../../src/formats/data-blob.ts';
import {
  compareGroups,
  formatGroup,
  formatNamespace,
  formatSnapshot,
  type Namespace,
  parseNamespace,
  type SnapshotId,
} from '../../src/formats/snapshot-path.ts';
import type { Repository, SnapshotReader } from '../../src/repository/repository.ts';
import { chunkDigest, sha256 } from '../support/encode-formats.ts';
import {
  type ExpectedArchive,
  type ExpectedSnapshot,
  expectedSnapshots,
  readGolden,
} from '../support/golden.ts';
import { goldenKey, goldenKeyNames } from '../support/golden-keys.ts';
import { needs } from '../support/requirements.ts';

export interface OpenedRepository extends AsyncDisposable {
  readonly repository: Repository;
}

const skip = needs('golden');

/** vm/103 has no snapshot, vm/300 none that is finished: a repository may leave both out of its lists. */
const optionalGroups = ['vm/103', 'vm/300'];
/** In the listing of the manifest they have no place. */
const unlistedFiles = ['index.json.blob', 'client.log.blob'];
const signOnlyGroups = ['host/signed', 'vm/201'];
const absent: SnapshotId = { namespace: [], type: 'vm', id: '100', time: 1_600_000_000 };

function snapshotId(expected: ExpectedSnapshot): SnapshotId {
  const [type, id] = expected.group.split('/');
  assert.ok(type === 'ct' || type === 'host' || type === 'vm');
  assert.ok(id !== undefined);
  const time = Date.parse(expected.time_iso) / 1000;
  return { namespace: parseNamespace(expected.ns), type, id, time };
}

function storedFiles(expected: ExpectedSnapshot): [string, ExpectedArchive][] {
  return Object.entries(expected.archives).filter(([name]) => name !== '.protected');
}

function isCode(...codes: readonly ErrorCode[]): (error: unknown) => boolean {
  return (error) => {
    assert.ok(isPbsfsError(error, ...codes), formatError(error));
    return true;
  };
}

async function keyOf(expected: ExpectedSnapshot) {
  const name = goldenKeyNames.find((known) => known === expected.key);
  if (name === undefined || signOnlyGroups.includes(expected.group)) return undefined;
  return await goldenKey(name);
}

function keyFingerprint(name: string): string {
  return JSON.parse(readGolden(`keys/${name}.json`).toString()).fingerprint;
}

export function repositorySuite(name: string, open: () => Promise<OpenedRepository>): void {
  const check = (title: string, body: (repository: Repository) => Promise<void>): void => {
    test(`${name}: ${title}`, { skip }, async () => {
      await using opened = await open();
      await body(opened.repository);
    });
  };

  check('has a name and tells its space, or zeros', async (repository) => {
    assert.notEqual(repository.name, '');
    const { total, used, available } = await repository.status();
    for (const figure of [total, used, available])
      assert.ok(Number.isFinite(figure) && figure >= 0);
    assert.ok(used <= total && available <= total);
  });

  listingChecks(check);
  snapshotChecks(check);
  readingChecks(check);
  abortChecks(check);
}

type Check = (title: string, body: (repository: Repository) => Promise<void>) => void;

function listingChecks(check: Check): void {
  check('lists the direct children of a namespace, sorted', async (repository) => {
    assert.deepEqual(await repository.listNamespaces([]), [['ns1']]);
    // Git keeps no empty folder, so ns1/empty is there only where somebody made it.
    const children = (await repository.listNamespaces(['ns1'])).map(formatNamespace);
    const required = children.filter((child) => child !== 'ns1/empty');
    assert.deepEqual(required, ['ns1/deep']);
    assert.deepEqual(children, [...children].sort());
    assert.deepEqual(await repository.listNamespaces(['ns1', 'deep']), []);
  });

  check('lists the groups of each namespace in the order of PBS', async (repository) => {
    for (const path of ['', 'ns1', 'ns1/deep']) {
      const namespace: Namespace = parseNamespace(path);
      const groups = (await repository.listGroups(namespace)).map(({ group }) => group);
      assert.deepEqual(groups, [...groups].sort(compareGroups));
      for (const group of groups) assert.deepEqual(group.namespace, namespace);
      const expected = expectedSnapshots().filter((snapshot) => snapshot.ns === path);
      const ids = groups.map(({ type, id }) => `${type}/${id}`);
      assert.deepEqual(
        new Set(ids.filter((id) => !optionalGroups.includes(id))),
        new Set(expected.map((snapshot) => snapshot.group)),
      );
    }
  });

  check('tells owner and notes of a group', async (repository) => {
    const groups = await repository.listGroups([]);
    const find = (path: string) => groups.find(({ group }) => formatGroup(group) === path);
    assert.equal(find('host/owned')?.owner, 'fixture@pbs!backup');
    assert.equal(find('vm/100')?.owner, 'root@pam!tok');
    assert.equal(find('vm/100')?.comment, 'group comment line 1');
    assert.equal(find('vm/101')?.comment, undefined);
    const notes = readGolden('store1/vm/100/notes').toString().trimEnd();
    assert.ok(notes.includes('\n'));
    assert.equal(await repository.readNotes({ namespace: [], type: 'vm', id: '100' }), notes);
    const bare = { namespace: [], type: 'vm', id: '101' } as const;
    assert.equal(await repository.readNotes(bare), undefined);
  });

  check('lists the snapshots of each group, oldest first', async (repository) => {
    const times = new Map<string, number[]>();
    for (const expected of expectedSnapshots()) {
      const id = snapshotId(expected);
      times.set(formatGroup(id), [...(times.get(formatGroup(id)) ?? []), id.time].sort());
    }
    for (const namespace of [[], ['ns1'], ['ns1', 'deep']]) {
      for (const { group } of await repository.listGroups(namespace)) {
        const listed = await repository.listSnapshots(group);
        const finished = listed.filter((summary) => summary.finished);
        const expected = (times.get(formatGroup(group)) ?? []).map((time) => ({ ...group, time }));
        assert.deepEqual(
          finished.map(({ snapshot }) => snapshot),
          expected,
        );
        const order = listed.map(({ snapshot }) => snapshot.time);
        assert.deepEqual(order, [...order].sort());
      }
    }
  });

  check('says not-found for a namespace or group that does not exist', async (repository) => {
    const group = { namespace: [], type: 'vm', id: '999' } as const;
    await assert.rejects(repository.listNamespaces(['nowhere']), isCode('not-found'));
    await assert.rejects(repository.listGroups(['ns1', 'nowhere']), isCode('not-found'));
    await assert.rejects(repository.listSnapshots(group), isCode('not-found'));
    const elsewhere = { namespace: ['nowhere'], type: 'vm', id: '100' } as const;
    await assert.rejects(repository.listSnapshots(elsewhere), isCode('not-found'));
  });
}

function snapshotChecks(check: Check): void {
  check('describes the files of every snapshot as its manifest does', async (repository) => {
    for (const expected of expectedSnapshots()) {
      const info = await repository.describeSnapshot(snapshotId(expected));
      const mode = signOnlyGroups.includes(expected.group) ? 'sign-only' : 'encrypt';
      const cryptMode = expected.key === null ? 'none' : mode;
      const listed = storedFiles(expected).filter(([name]) => !unlistedFiles.includes(name));
      let sum = 0;
      for (const [filename, archive] of listed) {
        const size = archive.size ?? archive.raw_size;
        const found = info.files.find((file) => file.filename === filename);
        assert.deepEqual(found, { filename, size, cryptMode }, `${expected.dir}/${filename}`);
        sum += size;
      }
      assert.deepEqual(
        new Set(info.files.map((file) => file.filename)),
        new Set(storedFiles(expected).map(([filename]) => filename)),
      );
      assert.ok(
        unlistedFiles.includes(info.files.at(-1)?.filename ?? ''),
        'unlisted files are last',
      );
      assert.equal(info.size, sum);
    }
  });

  check('describes owner, notes, protection, verification and key', async (repository) => {
    const verified = ['host/alpha', 'vm/200'];
    for (const expected of expectedSnapshots()) {
      const id = snapshotId(expected);
      const info = await repository.describeSnapshot(id);
      const owner = expected.group === 'host/owned' ? 'fixture@pbs!backup' : 'root@pam!tok';
      assert.deepEqual(info.snapshot, id);
      assert.equal(info.finished, true);
      assert.equal(info.owner, owner);
      assert.equal(info.protected, '.protected' in expected.archives);
      const fingerprint = expected.key === null ? undefined : keyFingerprint(expected.key);
      assert.equal(info.fingerprint, fingerprint);
      const isNoted = expected.dir === 'vm/100/2023-11-15T22:13:20Z';
      assert.equal(info.comment, isNoted ? 'First line of notes' : undefined);
      const notes = await repository.readNotes(id);
      if (isNoted) assert.match(notes ?? '', /^First line of notes\nsecond line with äöü/);
      else assert.equal(notes, undefined);
      if (!verified.includes(expected.group)) assert.equal(info.verification, undefined);
    }
    const vm200 = { namespace: [], type: 'vm', id: '200', time: 1_700_000_000 } as const;
    const { verification } = await repository.describeSnapshot(vm200);
    assert.equal(verification?.state, 'ok');
    assert.match(verification?.upid ?? '', /^UPID:.*:verify_snapshot:/);
  });

  check(
    'describes an unfinished snapshot, where it lists one, without sizes',
    async (repository) => {
      const group = { namespace: [], type: 'vm', id: '300' } as const;
      const groups = await repository.listGroups([]);
      if (!groups.some((info) => formatGroup(info.group) === 'vm/300')) return;
      for (const { snapshot, finished } of await repository.listSnapshots(group)) {
        assert.equal(finished, false);
        const info = await repository.describeSnapshot(snapshot);
        assert.equal(info.finished, false);
        assert.equal(info.size, undefined);
        for (const file of info.files) assert.equal(file.size, undefined);
      }
    },
  );

  check('says not-found for a snapshot that does not exist', async (repository) => {
    await assert.rejects(repository.describeSnapshot(absent), isCode('not-found'));
    await assert.rejects(repository.openSnapshot(absent), isCode('not-found'));
  });
}

/** Index files of a snapshot, read, which makes their chunks readable. */
async function readIndexes(reader: SnapshotReader, expected: ExpectedSnapshot): Promise<void> {
  for (const [name] of storedFiles(expected)) {
    if (!name.endsWith('.blob')) await reader.readFile(name);
  }
}

function readingChecks(check: Check): void {
  check('gives every stored file as it is', async (repository) => {
    for (const expected of expectedSnapshots()) {
      await using reader = await repository.openSnapshot(snapshotId(expected));
      assert.equal(formatSnapshot(reader.snapshot), expected.dir);
      for (const [name, archive] of storedFiles(expected)) {
        const raw = await reader.readFile(name);
        assert.equal(raw.length, archive.raw_size, `${expected.dir}/${name}`);
        assert.equal(sha256(raw).toString('hex'), archive.raw_sha256, `${expected.dir}/${name}`);
      }
    }
  });

  check('says not-found for a file that is not in the snapshot', async (repository) => {
    const [expected] = expectedSnapshots();
    assert.ok(expected);
    await using reader = await repository.openSnapshot(snapshotId(expected));
    await assert.rejects(reader.readFile('absent.conf.blob'), isCode('not-found'));
  });

  check(
    'gives every chunk of every index, which decode to what was backed up',
    async (repository) => {
      for (const expected of expectedSnapshots()) {
        const crypt = await keyOf(expected);
        await using reader = await repository.openSnapshot(snapshotId(expected));
        for (const [name, archive] of storedFiles(expected)) {
          if (archive.chunks === undefined) continue;
          const index = decodeIndex(name, await reader.readFile(name));
          assert.equal(index.chunkCount, archive.chunks.length);
          for (const [i, chunk] of archive.chunks.entries()) {
            assert.equal(index.digest(i).toString('hex'), chunk.digest);
            const raw = await reader.readChunk(index.digest(i));
            const maxLength = index.chunkEnd(i) - index.chunkStart(i);
            const plain = await decodeBlob(raw, { crypt, maxLength, crc: true });
            assert.equal(chunkDigest(plain, crypt?.revealKey()).toString('hex'), chunk.digest);
            // Those of catalogs were not recorded.
            const expectedPlain = chunk.plain_sha256 ?? sha256(plain).toString('hex');
            assert.equal(sha256(plain).toString('hex'), expectedPlain);
          }
        }
      }
    },
  );

  check('serves many readers and many chunks at once', async (repository) => {
    const [expected] = expectedSnapshots().filter(({ dir }) => dir.startsWith('host/alphachunks'));
    assert.ok(expected);
    const open = async () => {
      const reader = await repository.openSnapshot(snapshotId(expected));
      await readIndexes(reader, expected);
      return reader;
    };
    const readers = await Promise.all([open(), open()]);
    const digests = (expected.archives['root.pxar.didx']?.chunks ?? []).map(({ digest }) =>
      Buffer.from(digest, 'hex'),
    );
    assert.ok(digests.length > 90);
    const all = await Promise.all(
      readers.map((reader) => Promise.all(digests.map((digest) => reader.readChunk(digest)))),
    );
    for (const [i, digest] of digests.entries()) {
      for (const chunks of all) {
        const plain = await decodeBlob(chunks[i] ?? Buffer.alloc(0), { maxLength: 1 << 20 });
        assert.ok(sha256(plain).equals(digest));
      }
    }
    for (const reader of readers) await reader[Symbol.asyncDispose]();
  });
}

function abortChecks(check: Check): void {
  check('does nothing for a caller who has given up already', async (repository) => {
    const signal = AbortSignal.abort();
    const [expected] = expectedSnapshots();
    assert.ok(expected);
    const snapshot = snapshotId(expected);
    await assert.rejects(repository.listNamespaces([], signal), isCode('aborted'));
    await assert.rejects(repository.listGroups([], signal), isCode('aborted'));
    await assert.rejects(repository.listSnapshots(snapshot, signal), isCode('aborted'));
    await assert.rejects(repository.describeSnapshot(snapshot, signal), isCode('aborted'));
    await assert.rejects(repository.openSnapshot(snapshot, signal), isCode('aborted'));
    await assert.rejects(repository.status(signal), isCode('aborted'));
    await using reader = await repository.openSnapshot(snapshot);
    await assert.rejects(reader.readFile('index.json.blob', signal), isCode('aborted'));
  });

  check('gives up one read and goes on with the others', async (repository) => {
    const [expected] = expectedSnapshots().filter(({ dir }) => dir.startsWith('vm/100'));
    assert.ok(expected);
    await using reader = await repository.openSnapshot(snapshotId(expected));
    await readIndexes(reader, expected);
    const chunks = expected.archives['drive-scsi0.img.fidx']?.chunks ?? [];
    const digest = Buffer.from(chunks[1]?.digest ?? '', 'hex');
    const controller = new AbortController();
    const given = reader.readChunk(digest, controller.signal);
    const kept = reader.readChunk(digest);
    controller.abort();
    // It may have been faster than the abort.
    await given.catch(isCode('aborted'));
    assert.ok((await kept).length > 0);
    assert.deepEqual(await reader.readChunk(digest), await kept);
  });
}
