/** Every golden pxar archive restored as root, against what the real client restored, in every field. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { restoreTree } from '../../src/transfer/restore-tree.ts';
import type { BackupTree } from '../../src/tree/backup-tree.ts';
import { needs } from '../support/requirements.ts';
import {
  goldenArchives,
  goldenDirectory,
  goldenListing,
  isInMany,
  openGoldenTree,
  withoutMany,
} from './support/golden-archives.ts';
import { type ListedOnDisk, listDirectory } from './support/list-directory.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

const skip = needs('golden', 'root', 'koffi', 'python3');

/** Without what depends on the filesystem or is told in another form. */
function comparable(listing: readonly ListedOnDisk[]): unknown[] {
  return listing
    .map((entry) => {
      const { path, target, acl, ...rest } = entry as ListedOnDisk & Record<string, unknown>;
      return rest;
    })
    .toSorted((a, b) => (a.path_b64 < b.path_b64 ? -1 : 1));
}

/** The split archive holds the source tree without ACLs; of links and fifos pxar keeps no second name. */
function asSplit(listing: readonly ListedOnDisk[]): ListedOnDisk[] {
  return listing.map(({ xattrs_b64 = {}, hardlink_group, ...entry }) => {
    const kept = Object.entries(xattrs_b64).filter(
      ([name]) => !name.startsWith('system.posix_acl_') && name !== 'security.fixture',
    );
    const isFile = entry.type === 'f';
    return {
      ...entry,
      nlink: isFile || entry.type === 'd' ? entry.nlink : 1,
      ...(kept.length === 0 ? {} : { xattrs_b64: Object.fromEntries(kept) }),
      ...(isFile && hardlink_group !== undefined ? { hardlink_group } : {}),
    };
  });
}

/** The directory counts among those of the top. */
function withoutDirectory(listing: readonly ListedOnDisk[]): ListedOnDisk[] {
  const kept = listing.filter((entry) => !isInMany(entry));
  return kept.map((entry) =>
    entry.path_b64 === '' && kept.length < listing.length
      ? { ...entry, nlink: entry.nlink - 1 }
      : entry,
  );
}

test('chattr flags are restored', { skip: skip || needs('lsattr') }, async () => {
  await using tree = await openGoldenTree();
  using temporary = temporaryDirectory();
  const root = await goldenDirectory(tree, 'host/alpha/2023-11-14T22:13:20Z/root.pxar/attrs');
  const everything = { patterns: [], stripComponents: 0 };
  await restoreTree(root, temporary.path, everything, { existing: 'refuse' });
  const flagsOf = (name: string): string => {
    const [flags = ''] = execFileSync('lsattr', [temporary.join(name)])
      .toString()
      .split(' ');
    return flags.replaceAll(/[-e]/g, '');
  };
  const names = ['flag-immutable', 'flag-noatime', 'flag-nodump', 'user'];
  assert.deepEqual(names.map(flagsOf), ['i', 'A', 'd', '']);
});

describe('a golden archive restored by root equals what the real client restored', { skip }, () => {
  let tree: BackupTree;
  before(async () => {
    tree = await openGoldenTree();
  });
  after(async () => {
    await tree[Symbol.asyncDispose]();
  });

  for (const [path, listing] of skip === false ? goldenArchives() : []) {
    test(path, async () => {
      using temporary = temporaryDirectory();
      const root = await goldenDirectory(tree, path);
      const isFull = path.startsWith('host/alpha/2023-11-14');
      const selection = isFull ? { patterns: [], stripComponents: 0 } : withoutMany;
      const report = await restoreTree(root, temporary.join('t'), selection, {
        existing: 'refuse',
      });
      assert.deepEqual(report.failures, []);
      assert.deepEqual([...report.losses], []);
      const whole = goldenListing(listing);
      const expected = isFull ? whole : withoutDirectory(whole);
      assert.deepEqual(
        comparable(listDirectory(temporary.join('t'))),
        comparable(path.startsWith('host/split/') ? asSplit(expected) : expected),
      );
    });
  }
});
