/** What there is to verify at and below a path: finished snapshots, or one archive. */
import { PbsfsError } from '../errors.ts';
import type { SnapshotId } from '../formats/snapshot-path.ts';
import type { BackupTree } from '../tree/backup-tree.ts';
import { resolvePath } from '../tree/resolve.ts';
import { SnapshotDirectory } from '../tree/snapshot-directory.ts';
import { formatTreePath } from '../tree/tree-path.ts';
import { walkTree } from './walk.ts';

export interface VerifyTarget {
  readonly snapshot: SnapshotId;
  /** One archive, by any of its names; absent for the whole snapshot. */
  readonly archive?: string;
}

export interface VerifyTargetsOptions {
  readonly signal: AbortSignal;
  /** What cannot be listed; the rest is given beside it. */
  readonly onError: (path: readonly Buffer[], error: PbsfsError) => void;
}

/**
 * In the order of the tree. A group stands for all its snapshots.
 * @param start as `parseTreePath` gives it.
 * @throws PbsfsError `not-found`; `usage` for a path within an archive; `unreachable`, `aborted`, …
 */
export async function* verifyTargets(
  tree: BackupTree,
  start: readonly Buffer[],
  { signal, onError }: VerifyTargetsOptions,
): AsyncGenerator<VerifyTarget, void, undefined> {
  const { node: top, path } = await resolvePath(tree, start, { signal });
  for (let depth = 1; depth < path.length; depth++) {
    const { node } = await resolvePath(tree, path.slice(0, depth), { signal });
    if (!(node instanceof SnapshotDirectory)) continue;
    if (path.length > depth + 1) throw withinArchive(path);
    yield { snapshot: node.snapshot, archive: path[depth]?.toString() ?? '' };
    return;
  }
  // Above snapshots there are only directories, and links to them.
  if (top.kind !== 'directory') return;
  const walk = walkTree(top, {
    signal,
    onError: (at, error) => onError([...path, ...at], error),
    descend: ({ node }) => !(node instanceof SnapshotDirectory),
  });
  for await (const { node } of walk) {
    if (node instanceof SnapshotDirectory && node.finished) yield { snapshot: node.snapshot };
  }
}

function withinArchive(path: readonly Buffer[]): PbsfsError {
  return new PbsfsError('usage', 'lies within an archive, which is verified as a whole', {
    context: { path: formatTreePath(path) },
    hint: "name the archive; 'pbsfs cat' verifies what it reads of one file",
  });
}
