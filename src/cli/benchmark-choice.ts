/** Which archive `pbsfs benchmark` reads: the one that a path names, or the largest that can be read. */
import { isPbsfsError, PbsfsError } from '../errors.ts';
import { archiveKind, findArchive, isArchiveName } from '../formats/archive-name.ts';
import { formatNamespace, formatSnapshot, type Namespace } from '../formats/snapshot-path.ts';
import type { FileInfo, Repository, SnapshotInfo } from '../repository/repository.ts';
import { ArchiveBenchmark, type ArchiveId } from '../transfer/benchmark-archive.ts';
import type { BackupTree } from '../tree/backup-tree.ts';
import { resolvePath } from '../tree/resolve.ts';
import { SnapshotDirectory } from '../tree/snapshot-directory.ts';
import { formatTreePath, parseTreePath } from '../tree/tree-path.ts';
import type { OpenedTree } from './open-tree.ts';

export interface ChosenArchive extends AsyncDisposable {
  readonly id: ArchiveId;
  readonly benchmark: ArchiveBenchmark;
}

/** Groups that are looked into for the largest archive, those with the newest backups first. */
const maxGroups = 10;

/**
 * @param path an archive, or something in it; a snapshot or a group for the largest in there; undefined for the
 * largest of the newest snapshots in the namespace.
 * @throws PbsfsError `not-found`, `usage`, and what opening an archive throws
 */
export async function chooseArchive(
  { repository, tree, keys }: OpenedTree,
  namespace: Namespace,
  path: string | undefined,
  signal: AbortSignal,
): Promise<ChosenArchive> {
  const candidates =
    path === undefined
      ? await newestArchives(repository, namespace, signal)
      : await archivesAt(tree, path, signal);
  let refusal: PbsfsError | undefined;
  for (const id of candidates) {
    try {
      const benchmark = await ArchiveBenchmark.open(repository, keys, id, signal);
      return { id, benchmark, [Symbol.asyncDispose]: () => benchmark[Symbol.asyncDispose]() };
    } catch (error) {
      // The next one may be readable.
      if (!isPbsfsError(error, 'key-missing', 'key-wrong', 'usage')) throw error;
      refusal ??= error;
    }
  }
  throw refusal ?? nothingToRead(path, namespace);
}

function nothingToRead(path: string | undefined, namespace: Namespace): PbsfsError {
  const place = path ?? (namespace.length === 0 ? undefined : formatNamespace(namespace));
  return new PbsfsError('not-found', 'there is no image or other archive of chunks', {
    ...(place === undefined ? {} : { context: { path: place } }),
    hint: 'name one, such as vm/100/latest/drive-scsi0.img, or its namespace with --ns',
  });
}

async function newestArchives(
  repository: Repository,
  namespace: Namespace,
  signal: AbortSignal,
): Promise<readonly ArchiveId[]> {
  const groups = [...(await repository.listGroups(namespace, signal))];
  groups.sort((a, b) => (b.lastBackup ?? 0) - (a.lastBackup ?? 0));
  const infos: SnapshotInfo[] = [];
  for (const { group } of groups.slice(0, maxGroups)) {
    const snapshots = await repository.listSnapshots(group, signal);
    const newest = snapshots.findLast(({ finished }) => finished);
    if (newest !== undefined)
      infos.push(await repository.describeSnapshot(newest.snapshot, signal));
  }
  return largestFirst(infos);
}

async function archivesAt(
  tree: BackupTree,
  text: string,
  signal: AbortSignal,
): Promise<readonly ArchiveId[]> {
  const { path } = await resolvePath(tree, parseTreePath(text), { group: 'newest', signal });
  for (let length = path.length; length > 0; length--) {
    const { node } = await resolvePath(tree, path.slice(0, length), { signal });
    if (!(node instanceof SnapshotDirectory)) continue;
    const info = await node.describe(signal);
    const name = path[length]?.toString();
    return name === undefined ? largestFirst([info]) : [namedArchive(info, name)];
  }
  throw new PbsfsError('usage', 'is above all snapshots', {
    context: { path: formatTreePath(path) },
    hint: 'name an archive, a snapshot or a group',
  });
}

function namedArchive({ snapshot, files }: SnapshotInfo, name: string): ArchiveId {
  const names = files.map(({ filename }) => filename).filter(isArchiveName);
  const archive = findArchive(name, names);
  const filename = archive?.split === true ? archive.payload : archive?.filename;
  if (filename !== undefined && archiveKind(filename) !== 'blob') return { snapshot, filename };
  throw new PbsfsError('usage', 'is no archive of chunks', {
    context: { snapshot: formatSnapshot(snapshot), path: name },
    hint: 'name an image or a pxar archive',
  });
}

function largestFirst(infos: readonly SnapshotInfo[]): readonly ArchiveId[] {
  const archives = infos.flatMap(({ snapshot, files }) =>
    files.filter(isChunked).map(({ filename, size = 0 }) => ({ snapshot, filename, size })),
  );
  return archives.sort((a, b) => b.size - a.size);
}

function isChunked({ filename, size }: FileInfo): boolean {
  return size !== undefined && isArchiveName(filename) && archiveKind(filename) !== 'blob';
}
