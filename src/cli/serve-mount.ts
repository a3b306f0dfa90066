/**
 * The life of a mount: it is up, then a signal or somebody's umount(8) ends it. A mount that is in use when
 * the signal comes is detached at once all the same, after a line that says who uses it.
 */
import type { FuseDriver, Mount, MountOptions } from '../fuse/driver.ts';
import { findHolders, formatHolders } from '../fuse/mount-holders.ts';
import { promptCapacity } from '../fuse/prompt-capacity.ts';
import type { Directory } from '../tree/node.ts';
import type { EndSignals } from './end-signals.ts';
import { notifyServiceManager } from './service-manager.ts';

export interface MountRequest {
  readonly driver: FuseDriver;
  readonly root: Directory;
  /** Mount point. */
  readonly directory: string;
  readonly options: MountOptions;
  /** Called when the mount answers. */
  readonly onReady: () => Promise<void>;
}

/**
 * Shows `root` until the mount is gone.
 * @param signals caught since before: one that comes while the mount is made must not leave it there.
 * @throws PbsfsError as the driver does; nothing is left behind then.
 */
export async function serveMount(request: MountRequest, signals: EndSignals): Promise<void> {
  const { driver, root, directory, options, onReady } = request;
  const capacity = promptCapacity(options.capacity);
  const mount = await driver.mount(root, directory, { ...options, capacity });
  try {
    await onReady();
    await notifyServiceManager('READY=1');
    await Promise.race([mount.done, signals.first]);
  } finally {
    await notifyServiceManager('STOPPING=1');
    await end(mount, signals, options);
  }
  await mount.done;
}

async function end(mount: Mount, signals: EndSignals, { logger }: MountOptions): Promise<void> {
  const detach = async (): Promise<void> => {
    await mount.unmount({ lazy: true });
  };
  const unmount = async (): Promise<void> => {
    if ((await mount.unmount()) === 'unmounted') return;
    const holders = formatHolders(await findHolders(mount.mountPoint));
    const who = holders === '' ? '' : ` by ${holders}`;
    logger('warn', `${mount.mountPoint} is in use${who}: detached all the same`);
    await detach();
  };
  await Promise.race([unmount(), signals.second.then(detach)]);
}
