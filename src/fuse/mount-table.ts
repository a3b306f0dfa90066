/**
 * The mounts that this process sees.
 *
 *   36 35 0:41 / /mnt/pbs ro,nosuid shared:7 - fuse.pbsfs SOURCE ro,user_id=0
 *         device  point   options   …any number of fields… - type source super options
 *
 * A space, tab, newline or backslash within a field is written as `\` and three octal digits.
 * Source: proc_pid_mountinfo(5).
 */
import { readFile } from 'node:fs/promises';

/** Type of our mounts in the table: `fuse.` and the subtype. */
export const mountType = 'fuse.pbsfs';
export const mountSubtype = 'pbsfs';

export interface MountEntry {
  /** `major:minor` of its files. */
  readonly device: string;
  readonly mountPoint: string;
  readonly type: string;
  readonly source: string;
}

/** All mounts, one that hides another behind it; empty where there is no such table. */
export async function readMountTable(): Promise<readonly MountEntry[]> {
  const text = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '');
  return parseMountTable(text);
}

/** The mount that is seen at `path` itself, the topmost one. */
export async function findMount(path: string): Promise<MountEntry | undefined> {
  return (await readMountTable()).findLast((entry) => entry.mountPoint === path);
}

/** Lines that are not understood are left out. */
export function parseMountTable(text: string): MountEntry[] {
  const entries: MountEntry[] = [];
  for (const line of text.split('\n')) {
    const fields = line.split(' ');
    const separator = fields.indexOf('-', 6);
    const [, , device, , mountPoint] = fields;
    const type = fields[separator + 1];
    const source = fields[separator + 2];
    if (separator < 0 || device === undefined || mountPoint === undefined) continue;
    if (type === undefined || source === undefined) continue;
    entries.push({
      device,
      mountPoint: decodeField(mountPoint),
      type,
      source: decodeField(source),
    });
  }
  return entries;
}

function decodeField(field: string): string {
  return field.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}
