/**
 * How a command ends. Node joins its threads first, and one of them may never come: a compiler that waits for a
 * collection of the main thread's heap (nodejs/node#54918, seen with Maglev and with Sparkplug once in twenty ends
 * of a busy mount), or a read of a disk that is dead.
 */
import { flushCompileCache } from 'node:module';
import { setFlagsFromString } from 'node:v8';
import { loadLibc } from '../fuse/kernel/libc.ts';

/** They run long enough to gain by the compilers, and not to mind the 15 ms in which `koffi` is loaded. */
const longCommands: ReadonlySet<string | undefined> = new Set([
  'mount',
  'restore',
  'verify',
  'benchmark',
]);

/**
 * Either the process will end without Node, or it does without those compilers. To be called before any thread is
 * started: a thread that was born without the compilers crashes when they are turned on.
 */
export async function prepareEnd(command: string | undefined): Promise<void> {
  const libc = longCommands.has(command) ? await loadLibc().catch(() => undefined) : undefined;
  if (libc === undefined) {
    setFlagsFromString('--no-maglev');
    setFlagsFromString('--no-concurrent-sparkplug');
  } else if (!isProfiled()) {
    process.on('exit', (code) => {
      flushCompileCache();
      libc.exit(code);
    });
  }
}

/** Whether Node itself writes something when it ends. */
function isProfiled(): boolean {
  const { NODE_OPTIONS: options = '', NODE_V8_COVERAGE: coverage } = process.env;
  return coverage !== undefined || /-prof/.test([...process.execArgv, options].join(' '));
}
