/** What `pbsfs doctor` looks at on the machine: everything that a mount needs, and who may see it. */
import { constants, existsSync } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { PbsfsError } from '../errors.ts';
import type { DriverName } from '../fuse/driver.ts';
import { containerHint, isRoot, missingAllowOther } from '../fuse/machine.ts';
import { selectDriver } from '../fuse/select-driver.ts';
import { type Check, fail, ok, warn } from './doctor-check.ts';

const program = fileURLToPath(new URL('../../bin/pbsfs.js', import.meta.url));
/** CAP_SYS_ADMIN of capability.h: what mount(2) asks for. */
const sysAdminBit = 21n;

/** In the order in which a mount would stumble over them. */
export async function checkMachine(): Promise<readonly Check[]> {
  const node = ok('Node', `${process.version} on ${process.platform}-${process.arch}`);
  if (process.platform !== 'linux') return [node, await checkDriver('fuse-native')];
  return [
    node,
    ...(await checkCapability()),
    await checkDriver('kernel'),
    optional(await checkDriver('fuse-native'), 'only needed for --driver fuse-native'),
    optional(await checkAllowOther(), 'only needed for -o allow_other'),
    await checkMountHelper(),
  ];
}

function optional(check: Check, limit: string): Check {
  if (check.status !== 'fail') return check;
  return warn(check.name, `${check.detail}; ${limit}`, check.hint);
}

async function checkDriver(name: DriverName): Promise<Check> {
  try {
    await selectDriver(name);
    return ok(`driver ${name}`, 'can mount');
  } catch (error) {
    return fail(`driver ${name}`, error);
  }
}

/** Root in a container may lack it. */
async function checkCapability(): Promise<Check[]> {
  if (!isRoot()) return [];
  const status = await readFile('/proc/self/status', 'utf8').catch(() => '');
  const effective = /^CapEff:\s*([0-9a-f]+)/m.exec(status)?.[1] ?? 'ffffffff';
  if ((BigInt(`0x${effective}`) >> sysAdminBit) & 1n) return [];
  const error = new PbsfsError('access-denied', 'root lacks the capability CAP_SYS_ADMIN here', {
    hint: (await containerHint()) ?? 'give the process CAP_SYS_ADMIN, or mount as an ordinary user',
  });
  return [fail('rights', error)];
}

async function checkAllowOther(): Promise<Check> {
  const missing = await missingAllowOther();
  return missing === undefined ? ok('allow_other', 'allowed') : fail('allow_other', missing);
}

/** `mount -t fuse.pbsfs`, fstab, and mount units of systemd. */
async function checkMountHelper(): Promise<Check> {
  const name = 'mount(8), fstab';
  const helper = ['/sbin/mount.fuse.pbsfs', '/sbin/mount.fuse'].find((path) => existsSync(path));
  if (helper === undefined) {
    return warn(name, 'finds no helper for pbsfs', `ln -s ${program} /sbin/mount.fuse.pbsfs`);
  }
  // It starts helpers without PATH, and a shell then looks nowhere else.
  const nodes = await Promise.all(['/usr/bin/node', '/bin/node'].map(isExecutable));
  if (nodes.includes(true)) return ok(name, `by ${helper}`);
  return warn(
    name,
    'starts helpers without PATH, and there is no node in /usr/bin',
    `ln -s ${process.execPath} /usr/bin/node`,
  );
}

async function isExecutable(path: string): Promise<boolean> {
  return await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
