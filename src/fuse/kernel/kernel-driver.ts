/**
 * The driver of choice on Linux: speaks the FUSE protocol on `/dev/fuse` itself, with no library between.
 * Root needs nothing installed; an ordinary user needs the program `fusermount3` and the package `koffi`.
 */
import { closeSync, writevSync } from 'node:fs';
import { PbsfsError, toPbsfsError } from '../../errors.ts';
import type { Directory } from '../../tree/node.ts';
import type { FuseDriver, Mount, MountOptions, UnmountResult } from '../driver.ts';
import { isRoot, missingAllowOther, missingDevice } from '../machine.ts';
import { parseDescriptor, prepareMountPoint } from '../mount-point.ts';
import { findProgram } from '../system-program.ts';
import { detach } from '../unmount.ts';
import { type Attached, attach, missingHelper } from './attach.ts';
import { releaseIdleMemory } from './idle-memory.ts';
import { type Libc, loadLibc } from './libc.ts';
import { raiseReadAhead } from './read-ahead.ts';
import {
  type OpenRequestSource,
  type RequestSource,
  readRequests,
  watchRequests,
} from './request-source.ts';
import { type SendReply, Session } from './session.ts';

export interface KernelMount extends Mount {
  /** Nodes that the kernel holds on to at the moment, besides the root. */
  readonly knownInodes: number;
  readonly openFiles: number;
}

export interface KernelDriver extends FuseDriver {
  mount(root: Directory, mountPoint: string, options: MountOptions): Promise<KernelMount>;
}

/** @param source how to wait for requests; default: the best that this machine can do. */
export function createKernelDriver(source?: OpenRequestSource): KernelDriver {
  return {
    name: 'kernel',
    missing,
    mount: (root, mountPoint, options) => mount(root, mountPoint, options, source),
  };
}

export const kernelDriver: KernelDriver = createKernelDriver();

async function missing(): Promise<PbsfsError | undefined> {
  if (process.platform !== 'linux') {
    return new PbsfsError('unsupported', 'the kernel driver is for Linux only');
  }
  const device = await missingDevice();
  if (device !== undefined || isRoot()) return device;
  if ((await findProgram('fusermount3')) === undefined) return missingHelper();
  return loadLibc().then(
    () => undefined,
    (error: unknown) => toPbsfsError(error),
  );
}

async function mount(
  root: Directory,
  givenMountPoint: string,
  options: MountOptions,
  givenSource: OpenRequestSource | undefined,
): Promise<KernelMount> {
  const isMounted = parseDescriptor(givenMountPoint) !== undefined;
  const mountPoint = isMounted
    ? givenMountPoint
    : await prepareMountPoint(givenMountPoint, options);
  if (!isMounted) await checkMachine(options);
  const libc = await loadLibc().catch(() => undefined);
  const openSource = givenSource ?? bestSource(libc);
  const attached = await attach(mountPoint, options, libc);
  const session = new Session(root, sendTo(attached.device), options);
  const idleMemory = releaseIdleMemory(libc, () => session.openFiles > 0);
  const source = openSource(attached.device, (bytes) => {
    idleMemory.touch();
    session.receive(bytes);
  });
  const done = serve(mountPoint, source, session, attached).finally(() =>
    idleMemory[Symbol.dispose](),
  );
  // Not awaited yet by anybody, and never an unhandled rejection.
  done.catch(() => {});
  await Promise.race([session.started, done.then(failedStart)]);
  if (isRoot() && !isMounted) await raiseReadAhead(mountPoint);
  return {
    mountPoint,
    done,
    unmount: ({ lazy = false } = {}) => unmount(mountPoint, source, done, lazy),
    get knownInodes() {
      return session.knownInodes;
    },
    get openFiles() {
      return session.openFiles;
    },
  };
}

async function checkMachine(options: MountOptions): Promise<void> {
  const lacking =
    (await missing()) ?? (options.allowOther === true ? await missingAllowOther() : undefined);
  if (lacking !== undefined) throw lacking;
  if (options.allowRoot === true && !isRoot()) {
    throw new PbsfsError('unsupported', 'the kernel cannot let in root alone (allow_root)', {
      hint: 'use -o allow_other, or mount as root',
    });
  }
}

/** Two reads: see `request-source.ts`. */
function bestSource(libc: Libc | undefined): OpenRequestSource {
  return libc === undefined ? readRequests(2) : watchRequests(libc);
}

function failedStart(): never {
  throw new PbsfsError('failed', 'the mount went away before it answered');
}

/** One system call, and no copy but the kernel's own. */
function sendTo(device: number): SendReply {
  return (parts) => {
    try {
      writevSync(device, parts);
      return true;
    } catch (error) {
      // The request was given up, or the mount is gone.
      const code = error instanceof Error && 'code' in error ? error.code : undefined;
      if (code === 'ENOENT' || code === 'ENODEV') return false;
      throw error;
    }
  };
}

/** Serves to the end of the mount, and leaves no dead mount when serving fails. */
async function serve(
  mountPoint: string,
  source: RequestSource,
  session: Session,
  attached: Attached,
): Promise<void> {
  try {
    await source.ended;
  } catch (error) {
    await detach(mountPoint, { lazy: true }).catch(() => {});
    throw error;
  } finally {
    await session.end();
    closeSync(attached.device);
    if (attached.helperSocket !== undefined) closeSync(attached.helperSocket);
  }
}

async function unmount(
  mountPoint: string,
  source: RequestSource,
  done: Promise<void>,
  lazy: boolean,
): Promise<UnmountResult> {
  // A mount that a parent made can only be left: with the descriptor its connection ends.
  if (parseDescriptor(mountPoint) === undefined) {
    const result = await detach(mountPoint, { lazy, abort: lazy });
    if (result === 'busy') return 'busy';
  }
  // Copies of the mount in other namespaces would keep it alive.
  source.close();
  await done;
  return 'unmounted';
}
