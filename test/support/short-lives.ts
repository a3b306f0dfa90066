/**
 * Loaded into the command line before anything else (`node --import`), so that what takes it minutes takes
 * moments: deadlines of a conversation with a server, and retries, from `PBSFS_TEST_LIVES`.
 */
import { type Deadlines, defaultDeadlines } from '../../src/repository/pbs/deadlines.ts';
import { defaultRetry, type RetryOptions } from '../../src/repository/with-retry.ts';

export interface Lives {
  readonly deadlines?: Partial<Deadlines>;
  readonly retry?: RetryOptions;
}

/** The environment of a command that lives so. */
export function livingShortly(lives: Lives): NodeJS.ProcessEnv {
  return {
    NODE_OPTIONS: `--import=${import.meta.url}`,
    PBSFS_TEST_LIVES: JSON.stringify(lives),
  };
}

const { deadlines, retry } = JSON.parse(process.env['PBSFS_TEST_LIVES'] ?? '{}') as Lives;
Object.assign(defaultDeadlines, deadlines);
Object.assign(defaultRetry, retry);
