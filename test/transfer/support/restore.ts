/** Restores trees in memory, in the way most tests want it. */

import type { TransferReport } from '../../../src/transfer/report.ts';
import type { RestoreOptions } from '../../../src/transfer/restore-run.ts';
import { restoreTree } from '../../../src/transfer/restore-tree.ts';
import type { Selection } from '../../../src/transfer/selection.ts';
import type { Directory } from '../../../src/tree/node.ts';

export async function restore(
  root: Directory,
  target: string,
  options: Partial<RestoreOptions & Selection> = {},
): Promise<TransferReport> {
  const { patterns = [], stripComponents = 0, ...rest } = options;
  return await restoreTree(
    root,
    target,
    { patterns, stripComponents },
    { existing: 'refuse', ...rest },
  );
}

/** `path: message` of each failure. */
export function failuresOf(report: TransferReport): string[] {
  return report.failures.map(({ path, error }) => `${path.join('/')}: ${error.message}`);
}
