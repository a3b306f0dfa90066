/**
 * How far the kernel reads ahead of a program that reads a file from front to back. A mount gets 128 KiB,
 * and its protocol can only lower that; as root it can be raised from outside.
 */
import { writeFile } from 'node:fs/promises';
import { findMount } from '../mount-table.ts';

/** As much as one request may ask for. */
const readAheadKilobytes = 1024;

/** Best effort: without it sequential reads come in smaller pieces. */
export async function raiseReadAhead(mountPoint: string): Promise<void> {
  const mount = await findMount(mountPoint);
  if (mount === undefined) return;
  const setting = `/sys/class/bdi/${mount.device}/read_ahead_kb`;
  await writeFile(setting, String(readAheadKilobytes)).catch(() => {});
}
