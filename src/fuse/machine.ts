/** What a machine may lack for a mount, each with its remedy: the device, rights in a container, fuse.conf. */
import { constants } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { PbsfsError } from '../errors.ts';

const device = '/dev/fuse';
const configuration = '/etc/fuse.conf';

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/** Why `/dev/fuse` cannot be used, or undefined. */
export async function missingDevice(): Promise<PbsfsError | undefined> {
  try {
    await access(device, constants.R_OK | constants.W_OK);
    return undefined;
  } catch (cause) {
    const container = await containerHint();
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') {
      const hint = container ?? 'load the kernel module: modprobe fuse';
      return new PbsfsError('unsupported', `${device} does not exist`, { hint, cause });
    }
    // Root is refused by a container only, others by the mode of the device.
    const chmod = `as root: chmod 666 ${device}, or mount as root`;
    const hint = isRoot() ? (container ?? chmod) : chmod;
    return new PbsfsError('access-denied', `no right to read and write ${device}`, { hint, cause });
  }
}

/** What to do in the container that this process runs in; undefined outside of one. */
export async function containerHint(): Promise<string | undefined> {
  const kind = await containerKind();
  if (kind === undefined) return undefined;
  return kind === 'lxc'
    ? 'in Proxmox VE enable it for this container: pct set CTID --features fuse=1, then restart it'
    : 'start the container with: --device /dev/fuse --cap-add SYS_ADMIN';
}

/** The files by which container engines make themselves known. */
async function containerKind(): Promise<'lxc' | 'docker' | undefined> {
  const exists = (path: string): Promise<boolean> =>
    access(path).then(
      () => true,
      () => false,
    );
  if ((await exists('/.dockerenv')) || (await exists('/run/.containerenv'))) return 'docker';
  const kind = await readFile('/run/systemd/container', 'utf8').catch(() => '');
  if (kind.trim() === 'lxc') return 'lxc';
  return kind.trim() === '' ? undefined : 'docker';
}

/** Why an ordinary user's mount cannot be opened to others, or undefined. */
export async function missingAllowOther(): Promise<PbsfsError | undefined> {
  if (isRoot()) return undefined;
  const text = await readFile(configuration, 'utf8').catch(() => '');
  if (text.split('\n').some((line) => line.trim() === 'user_allow_other')) return undefined;
  return new PbsfsError('access-denied', `allow_other is not enabled for users`, {
    hint: `as root add the line user_allow_other to ${configuration}, or mount as root`,
  });
}
