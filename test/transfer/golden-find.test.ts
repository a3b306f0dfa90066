/** The search over golden archives, with a catalog and without, against what the real client restored. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { findEntries } from '../../src/transfer/find.ts';
import type { BackupTree } from '../../src/tree/backup-tree.ts';
import type { Node } from '../../src/tree/node.ts';
import { needs } from '../support/requirements.ts';
import { goldenListing, openGoldenTree } from './support/golden-archives.ts';
import type { ListedOnDisk } from './support/list-directory.ts';

const letters: Readonly<Record<Node['kind'], ListedOnDisk['type']>> = {
  directory: 'd',
  file: 'f',
  symlink: 'l',
  block: 'b',
  char: 'c',
  fifo: 'p',
  socket: 's',
};

describe('everything in a golden archive is found', { skip: needs('golden') }, () => {
  let tree: BackupTree;
  before(async () => {
    tree = await openGoldenTree();
  });
  after(async () => {
    await tree[Symbol.asyncDispose]();
  });

  for (const [archive, listing] of [
    ['host/alpha/2023-11-14T22:13:20Z/root.pxar', 'pxar-alpha-v1.json'],
    ['host/split/2023-11-14T22:13:20Z/root.pxar', 'source-alpha-v1.json'],
    ['host/enc/2023-11-14T22:13:20Z/root.pxar', 'pxar-small.json'],
  ] as const) {
    test(archive, async () => {
      const start = archive.split('/').map((name) => Buffer.from(name));
      const query = {
        names: [],
        kinds: undefined,
        sizes: [],
        newer: undefined,
        older: undefined,
      };
      const found: string[] = [];
      const onError = (path: readonly Buffer[], error: Error): void =>
        assert.fail(`${path.join('/')}: ${error.message}`);
      for await (const entry of findEntries(tree.root, start, query, { onError })) {
        const path = entry.path.slice(start.length).map((name) => name.toString('latin1'));
        const line = [path.join('/'), letters[entry.kind], entry.size, entry.mtime.seconds];
        found.push(line.join(' '));
      }
      const expected = goldenListing(listing).map(({ path_b64, type, size, mtime_ns }) => {
        const path = Buffer.from(path_b64, 'base64').toString('latin1');
        const nanos = BigInt(mtime_ns);
        const seconds = (nanos - (((nanos % 10n ** 9n) + 10n ** 9n) % 10n ** 9n)) / 10n ** 9n;
        return [path, type, size, seconds].join(' ');
      });
      assert.deepEqual(found.toSorted(), expected.toSorted());
    });
  }
});
