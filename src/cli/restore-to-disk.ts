/** Restores a directory, one entry, or a whole snapshot to disk. */
import { mkdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { PbsfsError, toPbsfsError } from '../errors.ts';
import { JobPool } from '../transfer/job-pool.ts';
import { isDiskFull, locally } from '../transfer/local-error.ts';
import type { Progress } from '../transfer/report.ts';
import type { RestoreOptions } from '../transfer/restore-run.ts';
import { restoreNode, restoreTree } from '../transfer/restore-tree.ts';
import { selectEntries } from '../transfer/selection.ts';
import { isFatal, walkTree } from '../transfer/walk.ts';
import { BlobFile } from '../tree/blob-file.ts';
import { ImageFile } from '../tree/image-file.ts';
import type { Directory, Node } from '../tree/node.ts';
import { PxarRoot } from '../tree/pxar-root.ts';
import { SnapshotDirectory } from '../tree/snapshot-directory.ts';
import { formatTreePath } from '../tree/tree-path.ts';
import { atPath, reportFailure, writeOut } from './output.ts';
import { formatRate } from './progress-line.ts';
import { restoreBytes } from './restore-bytes.ts';
import { type RestoreJob, selectsAll } from './restore-job.ts';
import { printOutcome } from './restore-outcome.ts';

/** More would only make a disk seek: the chunks of each are fetched side by side already. */
const archivesAtOnce = 4;

/** @throws PbsfsError for what ends the restore; other failures are printed and set the exit code. */
export async function restoreToDisk(job: RestoreJob): Promise<void> {
  const { node, path } = job.found;
  if (node instanceof SnapshotDirectory) await restoreSnapshot(job, node);
  else if (node.kind === 'directory') await restoreDirectory(job, node, job.target);
  else {
    const { directory, name } = placeOf(job);
    if (isStored(node)) await restoreBytes(job, node, path, join(directory, name.toString()));
    else await restoreEntry(job, node, directory, name);
  }
}

/** An image or a blob: what a backup is made of, not a file that was backed up. */
function isStored(node: Node): node is ImageFile | BlobFile {
  return node instanceof ImageFile || node instanceof BlobFile;
}

/** As cp(1) has it: into a directory that is there under its own name, else under the name given. */
function placeOf({ found, target }: RestoreJob): { directory: string; name: Buffer } {
  const own = found.path.at(-1) ?? Buffer.from(basename(target));
  const stats = locally(target, () => statSync(target, { throwIfNoEntry: false }));
  return stats?.isDirectory() || target.endsWith('/')
    ? { directory: target, name: own }
    : { directory: dirname(target), name: Buffer.from(basename(target)) };
}

/** All archives at once, each under its name; one that fails does not stop the others. */
async function restoreSnapshot(job: RestoreJob, snapshot: SnapshotDirectory): Promise<void> {
  if (!selectsAll(job)) {
    throw new PbsfsError('usage', '--pattern and --strip-components are for one archive', {
      hint: `name it, such as ${formatTreePath(job.found.path)}/root.pxar`,
    });
  }
  locally(job.target, () => mkdirSync(job.target, { recursive: true }));
  const failed = new AbortController();
  const signal = AbortSignal.any([job.signal, failed.signal]);
  const pool = new JobPool(archivesAtOnce);
  try {
    for (const { name } of await snapshot.list(signal)) {
      const progress = job.progress.labelled(name.toString());
      await pool.add(() => restoreArchive({ ...job, signal, progress }, snapshot, name));
    }
    await pool.end();
  } catch (error) {
    failed.abort(toPbsfsError(error));
    await pool.end().catch(() => {});
    throw error;
  }
}

async function restoreArchive(
  job: RestoreJob,
  snapshot: SnapshotDirectory,
  name: Buffer,
): Promise<void> {
  const path = [...job.found.path, name];
  const target = join(job.target, name.toString());
  try {
    const node = await snapshot.lookup(name, job.signal);
    job.logger('info', `${formatTreePath(path)} → ${target}`);
    if (node instanceof PxarRoot) await restoreDirectory(job, node, target);
    else if (node?.kind === 'file') await restoreBytes(job, node, path, target);
  } catch (error) {
    if (isFatal(error) || isDiskFull(error)) throw error;
    reportFailure('restore', atPath(error, path));
  }
}

async function restoreDirectory(job: RestoreJob, node: Directory, target: string): Promise<void> {
  const startedAt = performance.now();
  const report = await restoreTree(node, target, job.selection, optionsOf(job, startedAt));
  job.progress[Symbol.dispose]();
  if (report.entries === 0 && report.failures.length === 0) {
    throw new PbsfsError('not-found', 'nothing there is selected', {
      context: { path: formatTreePath(job.found.path) },
      hint: 'see --pattern and --strip-components',
    });
  }
  printOutcome(report, 'restored', startedAt, job.logger);
}

async function restoreEntry(
  job: RestoreJob,
  node: Exclude<Node, Directory>,
  directory: string,
  name: Buffer,
): Promise<void> {
  const startedAt = performance.now();
  const report = await restoreNode(node, directory, name, optionsOf(job, startedAt));
  job.progress[Symbol.dispose]();
  printOutcome(report, 'restored', startedAt, job.logger);
}

function optionsOf({ existing, signal, progress }: RestoreJob, startedAt: number): RestoreOptions {
  const onProgress = ({ entries, bytes }: Progress): void =>
    progress.update(() => `${entries} entries, ${formatRate(bytes, startedAt)}`);
  return { existing, signal, onProgress };
}

/** Prints what would be restored, one path a line, and changes nothing. */
export async function listSelection({ found, selection, signal }: RestoreJob): Promise<void> {
  const { node, path } = found;
  if (node.kind !== 'directory') {
    await writeOut(`${formatTreePath(path.slice(-1))}\n`);
    return;
  }
  const walk = walkTree(node, {
    signal,
    onError: (at, error) => reportFailure('restore', atPath(error, [...path, ...at])),
  });
  for await (const { target, node: selected } of selectEntries(walk, selection)) {
    if (target.length === 0) continue;
    await writeOut(`${formatTreePath(target)}${selected.kind === 'directory' ? '/' : ''}\n`);
  }
}
