/**
 * Restores a directory of the tree, or one node of it, to disk. What fails is left out and reported; a full disk
 * or an unreachable repository ends the whole.
 *
 * What must hold, whatever an archive says: nothing is made outside the target (see `TargetDirectory`), nothing
 * that was there is changed unless it is asked for, and a file that is damaged does not replace one that was there.
 */
import type { Directory, Node } from '../tree/node.ts';
import { locally } from './local-error.ts';
import { TransferReport } from './report.ts';
import { type RestoreOptions, RestoreRun } from './restore-run.ts';
import { type SelectedEntry, type Selection, selectEntries } from './selection.ts';
import { loadSyscalls } from './syscalls.ts';
import { TargetDirectory } from './target-directory.ts';
import { type WalkOptions, walkTree } from './walk.ts';

/**
 * Restores what is in `root` into the directory `target`, which is made where it is missing. The metadata of
 * `root` goes to `target` where that was empty, or things may be replaced.
 * @throws PbsfsError `failed` for a full disk; `access-denied`, `not-directory` for the target itself;
 * `unreachable`, `aborted`, …
 */
export async function restoreTree(
  root: Directory,
  target: string,
  selection: Selection,
  options: RestoreOptions,
): Promise<TransferReport> {
  const report = new TransferReport();
  const signal = options.signal === undefined ? {} : { signal: options.signal };
  const select = (onError: WalkOptions['onError']): AsyncIterable<SelectedEntry> =>
    selectEntries(walkTree(root, { ...signal, onError }), selection);
  const entries = select((path, error) => report.fail(path, error));
  // What failed once is in the report.
  await restoreEntries(entries, () => select(() => {}), target, report, options);
  return report;
}

/** Restores one node that is no directory, as `name` in the directory `target`. @throws as `restoreTree` */
export async function restoreNode(
  node: Exclude<Node, Directory>,
  target: string,
  name: Buffer,
  options: RestoreOptions,
): Promise<TransferReport> {
  const report = new TransferReport();
  const entry: SelectedEntry = { path: [name], target: [name], node };
  const walk = (): AsyncIterable<SelectedEntry> => singleEntry(entry);
  await restoreEntries(walk(), walk, target, report, options);
  return report;
}

async function* singleEntry(entry: SelectedEntry): AsyncGenerator<SelectedEntry> {
  yield entry;
}

async function restoreEntries(
  entries: AsyncIterable<SelectedEntry>,
  again: () => AsyncIterable<SelectedEntry>,
  target: string,
  report: TransferReport,
  options: RestoreOptions,
): Promise<void> {
  const syscalls = await loadSyscalls();
  let run: RestoreRun | undefined;
  try {
    for await (const entry of entries) {
      // Nothing selected, nothing made.
      run ??= new RestoreRun(
        locally(target, () => TargetDirectory.openRoot(target)),
        report,
        syscalls,
        options,
      );
      await run.restore(entry);
    }
    await run?.end(again);
  } catch (error) {
    await run?.abandon(error);
    throw error;
  }
}
