/** What a mount of the golden datastore must show, wherever it is read from, and the comparison with it. */
import assert from 'node:assert/strict';
import { goldenArchives } from '../transfer/support/golden-archives.ts';
import { expectedSnapshots } from './golden.ts';
import { run, type StoreMount } from './golden-mount.ts';
import { expectedListing, type ListedEntry, sortByPath } from './pxar-listing.ts';
import { type WalkedEntry, walkMount } from './walk-mount.ts';

export interface Shown {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
}

/** Everything that is one plain file, as the real client restored it. */
export function shownFiles(): Shown[] {
  return expectedSnapshots().flatMap(({ dir, archives }) =>
    Object.entries(archives).flatMap(([name, archive]) => {
      const path = `${dir}/${name.replace(/\.(fidx|blob)$/, '')}`;
      const { decoded_size: size = archive.size, decoded_sha256: sha256 = archive.sha256 } =
        archive;
      const isShown = archive.kind !== 'dynamic' && size !== undefined && sha256 !== undefined;
      return isShown ? [{ path, size, sha256 }] : [];
    }),
  );
}

/** Archives in a form that a mount can be compared with. */
export function shownArchives(): Map<string, readonly ListedEntry[]> {
  const archives = new Map([...goldenArchives()].filter(([path]) => !path.includes('/split/')));
  archives.set('host/split/2023-11-15T22:13:20Z/root.pxar', 'pxar-small.json');
  archives.set('host/splitenc/2023-11-14T22:13:20Z/root.pxar', 'pxar-small.json');
  return new Map([...archives].map(([path, file]) => [path, sortByPath(expectedListing(file))]));
}

export async function assertSums(mount: StoreMount, files: readonly Shown[]): Promise<void> {
  const paths = files.map(({ path }) => mount.at(path));
  const lines = (await run('sha256sum', '-z', '--', ...paths)).split('\0').slice(0, -1);
  assert.deepEqual(
    files.map(({ path }, index) => [path, lines[index]?.slice(0, 64)]),
    files.map(({ path, sha256 }) => [path, sha256]),
  );
}

export async function assertArchives(
  mount: StoreMount,
  archives: ReadonlyMap<string, readonly ListedEntry[]>,
): Promise<void> {
  const trees = await walkMount(...[...archives.keys()].map((path) => ({ path: mount.at(path) })));
  for (const [index, [path, wanted]] of [...archives].entries()) {
    const found = (trees[index] ?? []).map(comparable);
    assert.equal(found.length, wanted.length, path);
    for (const [at, entry] of found.entries()) assert.deepEqual(entry, wanted[at], path);
  }
}

/** Without what is the mount's own: inode numbers, and what PBS says of the archive. */
function comparable({ ino: _, blocks: __, xattrs_b64: all, ...entry }: WalkedEntry): ListedEntry {
  const isOwn = (name: string): boolean => entry.path_b64 === '' && name.startsWith('user.pbs.');
  const xattrs = Object.entries(all ?? {}).filter(([name]) => !isOwn(name));
  return xattrs.length === 0 ? entry : { ...entry, xattrs_b64: Object.fromEntries(xattrs) };
}
