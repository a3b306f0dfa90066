/**
 * Looks at a mount point before anything is done, so that every mistake gets its own message. A dead mount
 * of ours at that place, left by a process that was killed, is cleared.
 */
import { opendir, realpath, stat } from 'node:fs/promises';
import { resolve, sep } from 'node:path';
import { PbsfsError } from '../errors.ts';
import { findMount, mountType } from './mount-table.ts';
import { detach, resolveMountPoint } from './unmount.ts';

export interface MountPointOptions {
  readonly nonempty?: boolean;
  /** Paths that must lie neither below nor above the mount point. */
  readonly keepApart?: readonly string[];
}

/** A descriptor of `/dev/fuse` that a parent process opened and mounted already: `/dev/fd/N`. */
export function parseDescriptor(mountPoint: string): number | undefined {
  const [, descriptor] = /^\/dev\/fd\/(\d{1,9})$/.exec(mountPoint) ?? [];
  return descriptor === undefined ? undefined : Number(descriptor);
}

/**
 * The absolute path of `directory`, ready to be mounted over.
 * @throws PbsfsError `not-found`, `not-directory`, `access-denied`; `usage` where it is not empty, is a mount
 *   of ours already, or lies on the way to what would be shown.
 */
export async function prepareMountPoint(
  directory: string,
  options: MountPointOptions = {},
): Promise<string> {
  const mountPoint = await resolveMountPoint(directory);
  await checkApart(mountPoint, options.keepApart ?? []);
  await clearDeadMounts(mountPoint);
  const present = await findMount(mountPoint);
  if (present?.type === mountType) {
    throw new PbsfsError('usage', `${present.source} is mounted here already`, {
      context: { path: mountPoint },
      hint: `unmount it first: pbsfs umount ${mountPoint}`,
    });
  }
  // Looking at an automount point would wait for the very mount that is being made.
  if (present?.type === 'autofs') return mountPoint;
  await checkDirectory(mountPoint);
  if (options.nonempty !== true) await checkEmpty(mountPoint);
  return mountPoint;
}

/** Several may lie upon each other. */
async function clearDeadMounts(mountPoint: string): Promise<void> {
  for (;;) {
    const mount = await findMount(mountPoint);
    if (mount?.type !== mountType || !(await isDead(mountPoint))) return;
    await detach(mountPoint, { lazy: true });
  }
}

/**
 * Without a server the kernel answers for it. Opening a directory always asks the server, and ours answers
 * at once; attributes might come from the kernel's cache.
 */
async function isDead(mountPoint: string): Promise<boolean> {
  try {
    await using _directory = await opendir(mountPoint);
    return false;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    return code === 'ENOTCONN' || code === 'ECONNABORTED';
  }
}

async function checkDirectory(mountPoint: string): Promise<void> {
  const context = { path: mountPoint };
  try {
    if ((await stat(mountPoint)).isDirectory()) return;
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    if (code === 'ENOENT') {
      throw new PbsfsError('not-found', 'the mount point does not exist', {
        context,
        hint: `make it: mkdir -p ${mountPoint}`,
        cause,
      });
    }
    if (code !== 'ENOTDIR') {
      throw new PbsfsError('access-denied', `the mount point cannot be reached: ${code}`, {
        context,
        cause,
      });
    }
  }
  throw new PbsfsError('not-directory', 'the mount point is not a directory', { context });
}

async function checkEmpty(mountPoint: string): Promise<void> {
  const context = { path: mountPoint };
  let entry: unknown;
  try {
    await using listing = await opendir(mountPoint);
    entry = await listing.read();
  } catch (cause) {
    throw new PbsfsError('access-denied', 'the mount point cannot be listed', { context, cause });
  }
  if (entry === null) return;
  throw new PbsfsError('usage', 'the mount point is not empty, its files would be hidden', {
    context,
    hint: 'take an empty directory, or -o nonempty',
  });
}

/** Serving a read would need a read through the mount itself, which waits for ever. */
async function checkApart(mountPoint: string, paths: readonly string[]): Promise<void> {
  for (const given of paths) {
    const path = await realpath(given).catch(() => resolve(given));
    if (!isBelow(path, mountPoint) && !isBelow(mountPoint, path)) continue;
    throw new PbsfsError('usage', `the mount point and ${path} lie within each other`, {
      context: { path: mountPoint },
      hint: 'mount somewhere else',
    });
  }
}

function isBelow(path: string, directory: string): boolean {
  return `${path}${sep}`.startsWith(directory.endsWith(sep) ? directory : `${directory}${sep}`);
}
