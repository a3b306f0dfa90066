/** What is restored, where to and how: what all kinds of restore share. */
import type { Logger } from '../log.ts';
import type { Semaphore } from '../semaphore.ts';
import type { Existing } from '../transfer/node-writer.ts';
import type { Selection } from '../transfer/selection.ts';
import type { Resolved } from '../tree/resolve.ts';
import type { ProgressLine } from './progress-line.ts';

export interface RestoreJob {
  readonly found: Resolved;
  /** Path on disk, or `-`. */
  readonly target: string;
  readonly selection: Selection;
  readonly existing: Existing;
  /** A device is known to hold nothing but zeros. */
  readonly skipZero: boolean;
  /** A device makes zeros by itself. */
  readonly discard: boolean;
  /** Chunks on their way at once. */
  readonly concurrency: number;
  /** As many, for all images of the job together. */
  readonly budget: Semaphore;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly progress: ProgressLine;
  /** Not even the last line. */
  readonly quiet: boolean;
}

/** Is everything selected? */
export function selectsAll({ selection }: RestoreJob): boolean {
  return selection.patterns.length === 0 && selection.stripComponents === 0;
}
