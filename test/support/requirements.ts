/**
 * What a test needs of the machine. A missing piece skips the test with its reason; with
 * `PBSFS_REQUIRE_ALL=1` nothing may skip, so the test runs and fails.
 *
 *   test('…', { skip: needs('fuse', 'qemu-img') }, async () => { … });
 */
import { accessSync, constants, existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { goldenDirectory } from './golden.ts';

const requireFrom = createRequire(import.meta.url);

function onPath(program: string): boolean {
  const folders = `${process.env['PATH'] ?? ''}${delimiter}/usr/sbin${delimiter}/sbin`;
  return folders.split(delimiter).some((folder) => existsSync(join(folder, program)));
}

function loads(packageName: string): boolean {
  try {
    requireFrom(packageName);
    return true;
  } catch {
    return false;
  }
}

function canOpen(device: string): boolean {
  try {
    accessSync(device, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

const special: Record<string, () => string | undefined> = {
  golden: () => (existsSync(goldenDirectory) ? undefined : `no golden data at ${goldenDirectory}`),
  fuse: () => (canOpen('/dev/fuse') ? undefined : 'cannot open /dev/fuse'),
  'loop-device': () => (canOpen('/dev/loop-control') ? undefined : 'cannot make loop devices'),
  root: () => (process.getuid?.() === 0 ? undefined : 'not root'),
  'fuse-native': () => (loads('fuse-native') ? undefined : 'fuse-native or libfuse2 is missing'),
  koffi: () => (loads('koffi') ? undefined : 'koffi is missing'),
};

/** `false`, or the reason to skip. Names are the special ones above, or programs on PATH. */
export function needs(...names: readonly string[]): string | false {
  if (process.env['PBSFS_REQUIRE_ALL'] === '1') return false;
  for (const name of names) {
    const check = special[name];
    const reason = check === undefined ? (onPath(name) ? undefined : `no ${name}`) : check();
    if (reason !== undefined) return reason;
  }
  return false;
}
