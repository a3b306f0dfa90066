/** Loaded in front of a command (`node --import`): notes what it has cost in the file that BENCH_COST_FILE names. */
import { writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import { costOf } from './processes.ts';

const file = process.env['BENCH_COST_FILE'];
if (isMainThread && file !== undefined) {
  process.on('exit', () => writeFileSync(file, JSON.stringify(costOf(process.pid))));
}
