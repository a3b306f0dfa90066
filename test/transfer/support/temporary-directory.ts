/** A directory for one test, gone with all that is in it when the test ends. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface TemporaryDirectory extends Disposable {
  readonly path: string;
  /** Path of something in it. */
  join(...names: string[]): string;
}

/**
 * @param mode for a test that lets another user in.
 * @param parent another place than the usual one.
 */
export function temporaryDirectory(mode = 0o700, parent: string = tmpdir()): TemporaryDirectory {
  const path = mkdtempSync(join(parent, 'pbsfs-test-'));
  chmodSync(path, mode);
  return {
    path,
    join: (...names) => join(path, ...names),
    [Symbol.dispose]: () => remove(path),
  };
}

/** rm(1), since Node cannot remove what is deeper than PATH_MAX. */
function remove(path: string): void {
  if (spawnSync('rm', ['-rf', path]).status === 0) return;
  // What was restored may be immutable.
  spawnSync('chattr', ['-R', '-f', '-i', '-a', path]);
  execFileSync('rm', ['-rf', path]);
}
