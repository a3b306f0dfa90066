// Runs the tests with Node's own runner and prints its own summary. `--slow` runs test/slow instead of
// the rest. Names of files or folders narrow the run: `npm test -- test/formats`.
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';

const args = process.argv.slice(2);
const slow = args.includes('--slow');
const named = args.filter((arg) => !arg.startsWith('--'));
const flags = args.filter((arg) => arg.startsWith('--') && arg !== '--slow');
const isSlow = (file) => file.startsWith('test/slow/');
const files = (named.length > 0 ? named : ['test'])
  .flatMap((name) =>
    name.endsWith('.ts') ? [name] : globSync(`${name.replace(/\/$/, '')}/**/*.test.ts`),
  )
  .filter((file) => named.length > 0 || isSlow(file) === slow)
  .sort();
if (files.length === 0) {
  console.error('no test files found');
  process.exit(1);
}
const run = spawnSync(
  process.execPath,
  ['--test', '--test-reporter=spec', '--test-timeout=300000', ...flags, ...files],
  { stdio: 'inherit' },
);
process.exit(run.status ?? 1);
