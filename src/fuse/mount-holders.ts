/** Who keeps a mount busy: processes with a working directory, root or open file below it, as far as seen. */
import { readdir, readFile, readlink } from 'node:fs/promises';

export interface Holder {
  readonly pid: number;
  /** Name of the program, as ps(1) shows it. */
  readonly command: string;
}

/** Bound of a message: more names help nobody. */
const maxHolders = 10;

/** At most ten holders. Those of other users are seen by root only. */
export async function findHolders(mountPoint: string): Promise<readonly Holder[]> {
  const pids = await namesIn('/proc');
  const holders: Holder[] = [];
  for (const pid of pids.filter((name) => /^\d+$/.test(name))) {
    if (holders.length === maxHolders) break;
    if (!(await holds(pid, mountPoint))) continue;
    const command = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '?');
    holders.push({ pid: Number(pid), command: command.trim() });
  }
  return holders;
}

/** Reading these links does not touch the mount, so it cannot hang. */
async function holds(pid: string, mountPoint: string): Promise<boolean> {
  const process = `/proc/${pid}`;
  const descriptors = await namesIn(`${process}/fd`);
  const links = ['cwd', 'root', 'exe', ...descriptors.map((name) => `fd/${name}`)];
  for (const link of links) {
    const target = await readlink(`${process}/${link}`).catch(() => '');
    if (target === mountPoint || target.startsWith(`${mountPoint}/`)) return true;
  }
  return false;
}

async function namesIn(directory: string): Promise<readonly string[]> {
  return readdir(directory).catch(() => []);
}

/** `bash (pid 123), less (pid 456)` */
export function formatHolders(holders: readonly Holder[]): string {
  return holders.map(({ pid, command }) => `${command} (pid ${pid})`).join(', ');
}
