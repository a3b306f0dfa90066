/** Which driver serves a mount. */
import type { DriverName, FuseDriver } from './driver.ts';
import { fuseNativeDriver } from './fuse-native/fuse-native-driver.ts';
import { kernelDriver } from './kernel/kernel-driver.ts';

export const driverNames = ['auto', 'kernel', 'fuse-native'] as const;

/**
 * The driver of that name; `auto` is the kernel driver, unless it lacks something that `fuse-native` does not.
 * @throws PbsfsError `unsupported`, `access-denied`: what the driver lacks on this machine.
 */
export async function selectDriver(name: DriverName | 'auto'): Promise<FuseDriver> {
  const first = name === 'fuse-native' ? fuseNativeDriver : kernelDriver;
  const lacking = await first.missing();
  if (lacking === undefined) return first;
  if (name === 'auto' && (await fuseNativeDriver.missing()) === undefined) return fuseNativeDriver;
  throw lacking;
}
