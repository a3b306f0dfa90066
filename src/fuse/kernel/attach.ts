/**
 * Gets a descriptor of `/dev/fuse` that is mounted: root mounts by mount(8), anybody else has the setuid
 * helper of libfuse 3 mount and hand the descriptor over, or a parent process did it before.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { PbsfsError } from '../../errors.ts';
import type { MountOptions } from '../driver.ts';
import { containerHint, isRoot } from '../machine.ts';
import { parseDescriptor } from '../mount-point.ts';
import { mountSubtype, mountType } from '../mount-table.ts';
import { type Finished, findProgram, runProgram } from '../system-program.ts';
import { maxReadSize } from '../wire/init.ts';
import { type Libc, loadLibc } from './libc.ts';

/**
 * A device that is mounted at `mountPoint`.
 * @param libc undefined where `koffi` does not load.
 * @throws PbsfsError `unsupported`, `access-denied`, `failed`.
 */
export async function attach(
  mountPoint: string,
  options: MountOptions,
  libc: Libc | undefined,
): Promise<Attached> {
  const descriptor = parseDescriptor(mountPoint);
  if (descriptor !== undefined) {
    // Who cannot unmount must be able to stop waiting for requests.
    if (libc === undefined) await loadLibc();
    return { device: descriptor };
  }
  if (isRoot() && options.autoUnmount !== true) {
    return { device: await mountAsRoot(mountPoint, options) };
  }
  return mountByHelper(libc ?? (await loadLibc()), mountPoint, options);
}

export interface Attached {
  readonly device: number;
  /** Kept open for a helper that unmounts when it closes. */
  readonly helperSocket?: number;
}

/** Options that both ways know. A backup is nothing to run setuid programs or open devices from. */
function commonOptions(options: MountOptions): string[] {
  const defaultPermissions = options.defaultPermissions ?? options.allowOther ?? false;
  return [
    'ro',
    'nosuid',
    'nodev',
    ...(options.noexec === true ? ['noexec'] : []),
    ...(options.allowOther === true ? ['allow_other'] : []),
    ...(defaultPermissions ? ['default_permissions'] : []),
    `max_read=${Math.min(options.maxRead ?? maxReadSize, maxReadSize)}`,
  ];
}

/** `-i`: call no helper, it would be ourselves. */
async function mountAsRoot(mountPoint: string, options: MountOptions): Promise<number> {
  const program = await findProgram('mount');
  if (program === undefined) throw new PbsfsError('unsupported', 'there is no program mount');
  const device = await openDevice();
  const mountOptions = [
    'fd=3',
    // The type bits of a directory's mode, in octal.
    'rootmode=40000',
    `user_id=${process.getuid?.() ?? 0}`,
    `group_id=${process.getgid?.() ?? 0}`,
    ...commonOptions(options),
  ].join(',');
  const args = ['-i', '-t', mountType, '-o', mountOptions, '--', options.source, mountPoint];
  try {
    const finished = await runProgram(program, args, { descriptor: device });
    if (finished.status !== 0) throw await refusal(finished, mountPoint);
    return device;
  } catch (error) {
    closeSync(device);
    throw error;
  }
}

/** In a container the device may be seen and yet refused. */
async function openDevice(): Promise<number> {
  try {
    return openSync('/dev/fuse', constants.O_RDWR);
  } catch (cause) {
    const hint = await containerHint();
    throw new PbsfsError('access-denied', `cannot open /dev/fuse: ${String(cause)}`, {
      ...(hint === undefined ? {} : { hint }),
      cause,
    });
  }
}

async function mountByHelper(
  libc: Libc,
  mountPoint: string,
  options: MountOptions,
): Promise<Attached> {
  const program = await findProgram('fusermount3');
  if (program === undefined) throw missingHelper();
  const mountOptions = [
    ...commonOptions(options),
    ...(options.autoUnmount === true ? ['auto_unmount'] : []),
    `subtype=${mountSubtype}`,
    `fsname=${options.source.replaceAll(/[\\,]/g, '\\$&')}`,
  ].join(',');
  const [ours, theirs] = libc.socketPair();
  let device: number | undefined;
  try {
    const running = runProgram(program, ['-o', mountOptions, '--', mountPoint], {
      descriptor: theirs,
      env: { _FUSE_COMMFD: '3' },
    });
    // The helper has its own copy; ours would keep a failure from closing the pair.
    closeSync(theirs);
    device = await libc.receiveDescriptor(ours);
    // With auto_unmount the helper stays for as long as the mount.
    if (device !== undefined && options.autoUnmount === true) return { device, helperSocket: ours };
    const finished = await running;
    if (device === undefined || finished.status !== 0) throw await refusal(finished, mountPoint);
  } catch (error) {
    if (device !== undefined) closeSync(device);
    closeSync(ours);
    throw error;
  }
  closeSync(ours);
  return { device };
}

/** The helper that an ordinary user needs. */
export function missingHelper(): PbsfsError {
  return new PbsfsError('unsupported', 'there is no fusermount3', {
    hint: 'install it (package fuse3), or mount as root',
  });
}

async function refusal(finished: Finished, mountPoint: string): Promise<PbsfsError> {
  const denied = /permi(ssion|tted)|superuser|denied/i.test(finished.message);
  const hint = denied ? await containerHint() : undefined;
  return new PbsfsError(
    denied ? 'access-denied' : 'failed',
    `cannot mount: ${finished.message || `status ${finished.status}`}`,
    { context: { path: mountPoint }, ...(hint === undefined ? {} : { hint }) },
  );
}
