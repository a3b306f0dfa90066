/** What a restore says at its end: what was left out, what failed, and how much is there. */
import type { PbsfsError } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { TransferReport } from '../transfer/report.ts';
import { formatTreePath } from '../tree/tree-path.ts';
import { exitCodeOf } from './exit-code.ts';
import { printFailure } from './output.ts';
import { formatRate } from './progress-line.ts';

/** Prints it, and sets the exit code where something failed. */
export function printOutcome(
  report: TransferReport,
  verb: string,
  startedAt: number,
  logger: Logger,
): void {
  const { failures, losses, worst, entries, bytes } = report;
  if (losses.size > 0) {
    const list = [...losses].map(([what, count]) => `${count} × ${what}`).join(', ');
    logger('warn', `left out: ${list}${rootHint(losses)}`);
  }
  for (const { path, error } of failures) printFailure('restore', atPlace(error, path));
  const failed = failures.length === 0 ? '' : `, ${failures.length} failed`;
  const count = entries === 1 ? '1 entry' : `${entries} entries`;
  logger('info', `${verb} ${count}, ${formatRate(bytes, startedAt)}${failed}`);
  if (worst !== undefined) process.exitCode ??= exitCodeOf(worst);
}

/** The path below what was restored, unless the error names one already. */
function atPlace(error: PbsfsError, path: readonly Buffer[]): PbsfsError {
  return path.length === 0 || error.context.path !== undefined
    ? error
    : error.at({ path: formatTreePath(path) });
}

/** Owners are what only root can give. */
function rootHint(losses: ReadonlyMap<string, number>): string {
  const isMissed = losses.has('owner and group') && process.getuid?.() !== 0;
  return isMissed ? ' (root could restore them)' : '';
}
