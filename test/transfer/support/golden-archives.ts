/** The golden pxar archives, opened through the tree, with what the real client made of each. */
import { KeyRing } from '../../../src/archives/key-ring.ts';
import { formatBackupTime } from '../../../src/formats/snapshot-path.ts';
import { silentLogger } from '../../../src/log.ts';
import { openDatastore } from '../../../src/repository/datastore/datastore.ts';
import { parsePathPattern } from '../../../src/transfer/path-pattern.ts';
import type { Selection } from '../../../src/transfer/selection.ts';
import { type BackupTree, openBackupTree } from '../../../src/tree/backup-tree.ts';
import type { Directory } from '../../../src/tree/node.ts';
import { resolvePath } from '../../../src/tree/resolve.ts';
import { parseTreePath } from '../../../src/tree/tree-path.ts';
import { goldenStore, readGolden } from '../../support/golden.ts';
import { goldenKeys } from '../../support/golden-keys.ts';
import type { ListedOnDisk } from './list-directory.ts';

export async function openGoldenTree(directory: string = goldenStore): Promise<BackupTree> {
  return openBackupTree(await openDatastore(directory), {
    cacheChunks: 16,
    concurrency: 4,
    logger: silentLogger,
    keys: new KeyRing(await goldenKeys()),
  });
}

/** Path in the tree → the listing of what the real client restored. */
export function goldenArchives(): ReadonlyMap<string, string> {
  const index = JSON.parse(readGolden('expected/pxar-index.json').toString()) as Record<
    string,
    string
  >;
  const paths = Object.entries(index).map(
    ([name, listing]) => [toTreePath(name), listing] as const,
  );
  return new Map([
    ...paths,
    // Split archives of the same trees; the real client of that version could not restore them.
    ['host/split/2023-11-14T22:13:20Z/root.pxar', 'source-alpha-v1.json'],
  ]);
}

/** `ns1/deep:host/alpha/1700000000/root.pxar` → `ns/ns1/ns/deep/host/alpha/2023-…Z/root.pxar`. */
function toTreePath(name: string): string {
  const [, namespace = '', group = '', time = '', archive = ''] =
    /^(?:(.*):)?(.*)\/(\d+)\/([^/]+)$/.exec(name) ?? [];
  const prefix = namespace === '' ? '' : `ns/${namespace.split('/').join('/ns/')}/`;
  return `${prefix}${group}/${formatBackupTime(Number(time))}/${archive}`;
}

export function goldenListing(name: string): ListedOnDisk[] {
  return JSON.parse(readGolden(`expected/${name}`).toString()) as ListedOnDisk[];
}

export async function goldenDirectory(tree: BackupTree, path: string): Promise<Directory> {
  const { node } = await resolvePath(tree, parseTreePath(path));
  if (node.kind !== 'directory') throw new Error(`${path} is a ${node.kind}`);
  return node;
}

/** The big trees have a directory of 3,000 files, which takes seconds to make: once is enough. */
export const withoutMany: Selection = {
  patterns: [parsePathPattern('!/many')],
  stripComponents: 0,
};

export function isInMany({ path_b64 }: ListedOnDisk): boolean {
  return /^many(\/|$)/.test(Buffer.from(path_b64, 'base64').toString('latin1'));
}
