/** The last thing that a command does. */
import { flushCompileCache } from 'node:module';
import { loadLibc } from '../fuse/kernel/libc.ts';

/** Seconds after which a command has had V8's compilers at work, and nobody notices that `koffi` is loaded. */
const longRun = 1;

/**
 * Ends the process with `process.exitCode`, whatever still goes on: idle connections to a server must not keep a
 * finished command.
 *
 * Node itself would join its threads first, and one that blocks in a read of a dead disk, or a compiler that
 * waits for a collection of the main thread's heap (nodejs/node#54918), never ends. So a command that ran for
 * long ends past Node, where `koffi` is there.
 */
export async function endProcess(): Promise<never> {
  if (process.uptime() > longRun && !isProfiled()) {
    const libc = await loadLibc().catch(() => undefined);
    process.on('exit', (code) => {
      flushCompileCache();
      libc?.exit(code);
    });
  }
  process.exit();
}

/** Whether Node writes something when it ends. */
function isProfiled(): boolean {
  const { NODE_OPTIONS: options = '', NODE_V8_COVERAGE: coverage } = process.env;
  return coverage !== undefined || /-prof/.test([...process.execArgv, options].join(' '));
}
