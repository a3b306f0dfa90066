// Installs the dependencies where they are missing or older than the lockfile, so that `npm test` and
// `npm run demo` work in a fresh checkout. Runs on any Node from 20 on: the Node that the project itself
// needs is one of those dependencies.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

const sameLock = () => {
  try {
    const installed = JSON.parse(readFileSync('node_modules/.package-lock.json', 'utf8')).packages;
    const wanted = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages;
    return Object.entries(wanted).every(
      ([path, entry]) =>
        path === '' || entry.optional || installed[path]?.version === entry.version,
    );
  } catch {
    return false;
  }
};

if (!existsSync('node_modules/node/bin/node') || !sameLock()) {
  console.error('pbsfs: installing dependencies (npm ci)');
  const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    stdio: ['ignore', 2, 2],
  });
  if (npm.error) throw npm.error;
  if (npm.status !== 0) process.exit(npm.status ?? 1);
}
