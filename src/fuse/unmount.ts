/**
 * Takes mounts away: root by umount(8); a user by the helper of libfuse, or by umount(8), which since
 * util-linux 2.35 lets a user take his own.
 */
import { realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { PbsfsError } from '../errors.ts';
import type { UnmountResult } from './driver.ts';
import { findHolders, type Holder } from './mount-holders.ts';
import { findMount, mountType } from './mount-table.ts';
import { type Finished, findProgram, runProgram } from './system-program.ts';

export interface DetachOptions {
  /** Leave the tree at once, even while in use. */
  readonly lazy?: boolean;
  /** End the connection as well, so that who still uses it gets errors; root only, else ignored. */
  readonly abort?: boolean;
}

/**
 * Unmounts what is at `mountPoint`, an absolute path.
 * @throws PbsfsError `failed` with what the programs said.
 */
export async function detach(
  mountPoint: string,
  options: DetachOptions = {},
): Promise<UnmountResult> {
  const before = await findMount(mountPoint);
  const said: string[] = [];
  for (const [name, args] of commands(mountPoint, options)) {
    const program = await findProgram(name);
    if (program === undefined) continue;
    const finished: Finished = await runProgram(program, args);
    if (finished.status === 0) return 'unmounted';
    if (/busy/i.test(finished.message)) return 'busy';
    // Somebody else may have been faster.
    const now = await findMount(mountPoint);
    if (now === undefined || now.device !== before?.device) return 'unmounted';
    said.push(finished.message);
  }
  throw new PbsfsError('failed', `cannot unmount: ${said.join('; ') || 'no umount found'}`, {
    context: { path: mountPoint },
  });
}

function commands(
  mountPoint: string,
  { lazy = false, abort = false }: DetachOptions,
): [string, string[]][] {
  if (process.platform === 'darwin') {
    return [['umount', [...(lazy ? ['-f'] : []), mountPoint]]];
  }
  const isRoot = process.getuid?.() === 0;
  const force = abort && isRoot ? ['-f'] : [];
  const umount: [string, string[]] = ['umount', [...(lazy ? ['-l', ...force] : []), mountPoint]];
  if (isRoot) return [umount];
  const helperArgs = ['-u', ...(lazy ? ['-z'] : []), '--', mountPoint];
  return [['fusermount3', helperArgs], ['fusermount', helperArgs], umount];
}

/** The absolute path of a mount point without asking the mount itself, which may be dead. */
export async function resolveMountPoint(directory: string): Promise<string> {
  const absolute = resolve(directory);
  try {
    return await realpath(absolute);
  } catch {
    const parent = await realpath(dirname(absolute)).catch(() => dirname(absolute));
    return join(parent, basename(absolute));
  }
}

export interface UnmountReport {
  /** `detached`: it was in use, left the tree at once and ends when the last user leaves it. */
  readonly result: 'unmounted' | 'detached';
  /** Who uses it, as far as seen. */
  readonly holders: readonly Holder[];
}

/**
 * What `pbsfs umount` does: unmounts a mount of ours, dead or alive, and detaches it where it is busy.
 * @throws PbsfsError `not-found` where `directory` shows no mount of ours; `failed`.
 */
export async function unmountPath(directory: string): Promise<UnmountReport> {
  const mountPoint = await resolveMountPoint(directory);
  const mount = await findMount(mountPoint);
  if (mount?.type !== mountType) {
    const there = mount === undefined ? 'nothing' : `${mount.type}, which is not ours,`;
    throw new PbsfsError('not-found', `${there} is mounted here`, {
      context: { path: mountPoint },
    });
  }
  if ((await detach(mountPoint)) === 'unmounted') return { result: 'unmounted', holders: [] };
  const holders = await findHolders(mountPoint);
  await detach(mountPoint, { lazy: true });
  return { result: 'detached', holders };
}
