/** A filesystem of its own, small enough to be full; gone with the test. Needs root. */
import { execFile } from 'node:child_process';
import { mkdtemp, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface Tmpfs extends AsyncDisposable {
  readonly path: string;
  /** `ro` or `rw`. */
  remount(options: string): Promise<void>;
}

export async function mountTmpfs({ bytes }: { bytes: number }): Promise<Tmpfs> {
  const path = await mkdtemp(join(tmpdir(), 'pbsfs-tmpfs-'));
  await run('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', path]);
  return {
    path,
    remount: async (options) => {
      await run('mount', ['-o', `remount,${options}`, path]);
    },
    [Symbol.asyncDispose]: async () => {
      await run('umount', ['-l', path]);
      await rmdir(path);
    },
  };
}
