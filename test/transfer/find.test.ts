/** The search in process: catalogs and archives give the same answers. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { KeyRing } from '../../src/archives/key-ring.ts';
import { silentLogger } from '../../src/log.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import { type Found, findEntries, onlyVersions } from '../../src/transfer/find.ts';
import type { FindQuery } from '../../src/transfer/find-query.ts';
import { parseNameGlob } from '../../src/transfer/name-glob.ts';
import { type BackupTree, openBackupTree } from '../../src/tree/backup-tree.ts';
import { formatTreePath } from '../../src/tree/tree-path.ts';
import { temporaryDatastore } from '../support/encode-datastore.ts';
import { first, second, time, writeFindStore } from './support/find-store.ts';

const store = temporaryDatastore();
const day = 86_400;
let tree: BackupTree;

before(async () => {
  writeFindStore(store.path);
  tree = openBackupTree(await openDatastore(store.path), {
    cacheChunks: 16,
    concurrency: 4,
    logger: silentLogger,
    keys: new KeyRing([]),
  });
});
after(async () => {
  await tree[Symbol.asyncDispose]();
  store[Symbol.dispose]();
});

const any: FindQuery = {
  names: [],
  kinds: undefined,
  sizes: [],
  newer: undefined,
  older: undefined,
};

async function collect(found: AsyncIterable<Found>): Promise<string[]> {
  const lines: string[] = [];
  for await (const { path, size, mtime } of found) {
    lines.push(`${formatTreePath(path)} ${size ?? '-'} ${mtime.seconds - time}`);
  }
  return lines;
}

function search(start: string, query: Partial<FindQuery>): AsyncIterable<Found> {
  const path = start.split('/').map((name) => Buffer.from(name));
  return findEntries(
    tree.root,
    path,
    { ...any, ...query },
    { onError: (at, error) => assert.fail(`${formatTreePath(at)}: ${error.message}`) },
  );
}

for (const group of ['host/plain', 'host/listed', 'host/garbled']) {
  describe(`in ${group}`, () => {
    const [a, b] = [`${group}/${first}/root.pxar`, `${group}/${second}/root.pxar`];
    const names = (...globs: string[]): Partial<FindQuery> => ({ names: globs.map(parseNameGlob) });

    test('a name is found in all snapshots, with size and time', async () => {
      assert.deepEqual(await collect(search(group, names('id_*'))), [
        `${a}/etc/id_rsa 3 ${-day}`,
        `${a}/id_link - 0`,
        `${b}/etc/id_\\xFF\\x09 1 0`,
        `${b}/etc/id_rsa 3 ${-day}`,
      ]);
    });

    test('versions that do not differ can be left out', async () => {
      const found = onlyVersions(search(group, names('id_rsa', 'passwd')));
      assert.deepEqual(await collect(found), [
        `${a}/etc/id_rsa 3 ${-day}`,
        `${a}/etc/passwd 3 0`,
        `${b}/etc/passwd 5 10`,
      ]);
    });

    test('kind, size and time narrow it down', async () => {
      assert.deepEqual(await collect(search(group, { kinds: new Set(['symlink'] as const) })), [
        `${a}/id_link - 0`,
        `${group}/latest - ${day}`,
      ]);
      const large = { sizes: [(bytes: number) => bytes > 2_000_000] };
      assert.deepEqual(await collect(search(group, large)), [`${a}/big 3000000 0`]);
      const newer = { ...names('passwd'), newer: time };
      assert.deepEqual(await collect(search(group, newer)), [`${b}/etc/passwd 5 10`]);
      const older = { kinds: new Set(['file'] as const), older: time };
      assert.deepEqual(await collect(search(a, older)), [`${a}/etc/id_rsa 3 ${-day}`]);
      const directories = { kinds: new Set(['directory'] as const), ...names('etc') };
      assert.deepEqual(await collect(search(group, directories)), [`${a}/etc - 0`, `${b}/etc - 0`]);
    });

    test('the start can lie within an archive', async () => {
      const three = { sizes: [(bytes: number) => bytes === 3] };
      assert.deepEqual(await collect(search(`${a}/etc`, three)), [
        `${a}/etc/id_rsa 3 ${-day}`,
        `${a}/etc/passwd 3 0`,
      ]);
    });
  });
}
