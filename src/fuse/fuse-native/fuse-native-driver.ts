/**
 * The driver over libfuse 2, by the npm package `fuse-native`: for systems without `/dev/fuse` of Linux, and as
 * a second opinion. `limitations.ts` tells what it cannot do.
 */
import { stat } from 'node:fs/promises';
import { PbsfsError, toPbsfsError } from '../../errors.ts';
import type { Directory } from '../../tree/node.ts';
import {
  defaultMutableSeconds,
  type FuseDriver,
  type Mount,
  type MountOptions,
} from '../driver.ts';
import { isRoot, missingAllowOther, missingDevice } from '../machine.ts';
import { prepareMountPoint } from '../mount-point.ts';
import { mountSubtype } from '../mount-table.ts';
import { findProgram } from '../system-program.ts';
import { detach } from '../unmount.ts';
import { loadFuseNative, type NativeMount } from './binding.ts';
import { PathOperations } from './path-operations.ts';

/** The package does not tell when its mount goes away, so it is looked for. */
const lookMilliseconds = 1000;

export const fuseNativeDriver: FuseDriver = { name: 'fuse-native', missing, mount };

async function missing(): Promise<PbsfsError | undefined> {
  try {
    loadFuseNative();
  } catch (error) {
    return toPbsfsError(error);
  }
  if (process.platform !== 'linux') return undefined;
  const device = await missingDevice();
  if (device !== undefined || isRoot()) return device;
  if ((await findProgram('fusermount')) !== undefined) return undefined;
  return new PbsfsError('unsupported', 'there is no fusermount', {
    hint: 'install it (package fuse or fuse3), or mount as root',
  });
}

async function mount(
  root: Directory,
  givenMountPoint: string,
  options: MountOptions,
): Promise<Mount> {
  const mountPoint = await prepareMountPoint(givenMountPoint, options);
  const others = options.allowOther === true || options.allowRoot === true;
  const lacking = (await missing()) ?? (others ? await missingAllowOther() : undefined);
  if (lacking !== undefined) throw lacking;
  const served = new PathOperations(root, options);
  const Fuse = loadFuseNative();
  const native = new Fuse(mountPoint, served.operations, { timeout: false });
  native._fuseOptions = () => `-o${libfuseOptions(options).join(',')}`;
  served.serveXattrs(native);
  await start(native, mountPoint);
  const { dev } = await stat(mountPoint);
  const gone = Promise.withResolvers<void>();
  const timer = setInterval(() => {
    void isAt(mountPoint, dev).then((present) => present || gone.resolve());
  }, lookMilliseconds);
  const done = gone.promise.then(() => {
    clearInterval(timer);
    return served.end();
  });
  return {
    mountPoint,
    done,
    unmount: async ({ lazy = false } = {}) => {
      if ((await detach(mountPoint, { lazy, abort: lazy })) === 'busy') return 'busy';
      gone.resolve();
      await done;
      return 'unmounted';
    },
  };
}

function start(native: NativeMount, mountPoint: string): Promise<void> {
  return new Promise((resolve, reject) => {
    native.mount((cause) => {
      if (cause === null) return resolve();
      reject(
        new PbsfsError('failed', `cannot mount: ${cause.message}`, {
          context: { path: mountPoint },
          cause,
        }),
      );
    });
  });
}

async function isAt(mountPoint: string, device: number): Promise<boolean> {
  return stat(mountPoint).then(
    (found) => found.dev === device,
    () => false,
  );
}

/** One set of timeouts for all, so the short one. */
function libfuseOptions(options: MountOptions): string[] {
  const seconds = options.mutableSeconds ?? defaultMutableSeconds;
  const defaultPermissions = options.defaultPermissions ?? options.allowOther ?? false;
  return [
    'ro',
    'nosuid',
    'nodev',
    ...(options.noexec === true ? ['noexec'] : []),
    ...(options.allowOther === true ? ['allow_other'] : []),
    ...(options.allowRoot === true ? ['allow_root'] : []),
    ...(options.autoUnmount === true ? ['auto_unmount'] : []),
    ...(options.nonempty === true ? ['nonempty'] : []),
    ...(defaultPermissions ? ['default_permissions'] : []),
    ...(options.maxRead === undefined ? [] : [`max_read=${options.maxRead}`]),
    'kernel_cache',
    `entry_timeout=${seconds}`,
    `attr_timeout=${seconds}`,
    `negative_timeout=${seconds}`,
    `subtype=${mountSubtype}`,
    `fsname=${options.source.replaceAll(/[\\,]/g, '\\$&')}`,
  ];
}
