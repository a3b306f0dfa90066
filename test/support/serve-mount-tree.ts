/**
 * A process that mounts the tree of the mount suite. Its one argument is JSON (`ServeOptions`); it tells the
 * parent over the process channel when the mount answers, obeys `Command`s, and ends with the mount.
 */
import { chdir } from 'node:process';
import { formatError, toPbsfsError } from '../../src/errors.ts';
import { overrideAttributes } from '../../src/fuse/attribute-mapping.ts';
import type { Mount } from '../../src/fuse/driver.ts';
import { fuseNativeDriver } from '../../src/fuse/fuse-native/fuse-native-driver.ts';
import { createKernelDriver, type KernelMount } from '../../src/fuse/kernel/kernel-driver.ts';
import { readRequests } from '../../src/fuse/kernel/request-source.ts';
import { type Counters, mountTree } from './mount-tree.ts';

export interface ServeOptions {
  readonly mountPoint: string;
  readonly driver: 'kernel' | 'kernel-on-threads' | 'fuse-native';
  readonly source?: string;
  readonly allowOther?: boolean;
  readonly autoUnmount?: boolean;
  readonly mutableSeconds?: number;
  readonly overrides?: { uid?: number; gid?: number; umask?: number };
  readonly keepApart?: readonly string[];
  /** Becomes this user before it mounts. */
  readonly user?: number;
}

export type Command = 'state' | 'grow' | 'unmount' | 'unmount-lazy';

export interface State {
  readonly counters: Counters;
  readonly log: readonly string[];
  readonly knownInodes: number;
  readonly openFiles: number;
}

export type Message =
  | { readonly type: 'mounted' }
  | { readonly type: 'failed'; readonly code: string; readonly message: string }
  | { readonly type: 'answer'; readonly value: unknown };

const options = JSON.parse(process.argv[2] ?? '') as ServeOptions;
const tree = mountTree();
const log: string[] = [];
const drivers = {
  kernel: createKernelDriver(),
  'kernel-on-threads': createKernelDriver(readRequests(2)),
  'fuse-native': fuseNativeDriver,
};

function tell(message: Message): Promise<void> {
  return new Promise((resolve) => {
    if (process.connected) process.send?.(message, () => resolve());
    else resolve();
  });
}

async function becomeUser(user: number): Promise<void> {
  // What is loaded later must be loaded now: the user may not be able to read this checkout.
  await import('koffi');
  process.setgroups?.([]);
  process.setgid?.(user);
  process.setuid?.(user);
}

function isKernelMount(mount: Mount): mount is KernelMount {
  return 'knownInodes' in mount;
}

function state(mount: Mount): State {
  return {
    counters: tree.counters,
    log,
    knownInodes: isKernelMount(mount) ? mount.knownInodes : -1,
    openFiles: isKernelMount(mount) ? mount.openFiles : -1,
  };
}

async function obey(mount: Mount, command: Command): Promise<unknown> {
  if (command === 'state') return state(mount);
  if (command === 'grow') return tree.grow();
  return mount.unmount({ lazy: command === 'unmount-lazy' });
}

async function serve(): Promise<void> {
  if (options.user !== undefined) await becomeUser(options.user);
  const { source = 'memory', overrides, user, driver, mountPoint, ...rest } = options;
  chdir('/');
  const mount = await drivers[driver].mount(tree.root, mountPoint, {
    ...rest,
    source,
    logger: (level, message) => log.push(`${level} ${message}`),
    capacity: async () => ({ total: 1 << 30, used: 1 << 28, available: 1 << 29 }),
    ...(overrides === undefined ? {} : { mapAttributes: overrideAttributes(overrides) }),
  });
  let answered = tell({ type: 'mounted' });
  process.on('message', (command: Command) => {
    answered = obey(mount, command).then((value) => tell({ type: 'answer', value }));
  });
  await mount.done;
  await answered;
}

try {
  await serve();
} catch (error) {
  await tell({ type: 'failed', code: toPbsfsError(error).code, message: formatError(error) });
}
if (process.connected) process.disconnect();
process.exit(0);
