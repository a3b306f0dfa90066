// Compiles src/ to dist/ for the package. dist/ is emptied first: tsc never removes an old output.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';

rmSync('dist', { recursive: true, force: true });
const tsc = spawnSync('tsc', ['-p', 'tsconfig.build.json'], { stdio: 'inherit' });
if (tsc.error) throw tsc.error;
process.exit(tsc.status ?? 1);
