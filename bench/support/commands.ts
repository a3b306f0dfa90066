/** Commands of pbsfs, timed as a user would: from the start of the program to its end. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sample } from './bench-case.ts';
import { pbsfs } from './mounts.ts';
import { run } from './processes.ts';

const noteCost = new URL('cost-on-exit.ts', import.meta.url).href;

/**
 * @param args of `pbsfs`.
 * @param reader takes its standard output through a pipe; without one that is dropped.
 */
export async function timedPbsfs(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  reader?: string,
): Promise<Sample> {
  const directory = mkdtempSync(join(tmpdir(), 'pbsfs-bench-cost-'));
  const file = join(directory, 'cost.json');
  const command = [process.execPath, '--import', noteCost, pbsfs, ...args];
  const script = reader === undefined ? '"$@"' : `set -o pipefail; "$@" | ${reader}`;
  try {
    const start = performance.now();
    await run('bash', ['-c', script, 'bash', ...command], {
      env: { ...env, BENCH_COST_FILE: file },
      stdout: 'ignore',
    });
    const seconds = (performance.now() - start) / 1000;
    return { ...(JSON.parse(readFileSync(file, 'utf8')) as Omit<Sample, 'seconds'>), seconds };
  } finally {
    rmSync(directory, { recursive: true });
  }
}
