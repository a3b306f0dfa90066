/** Runs bin/pbsfs.js in a child process, with an environment that holds nothing of the user's. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export const program = fileURLToPath(new URL('../../bin/pbsfs.js', import.meta.url));

export interface CliOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** A command that runs it, such as a shell with `exec "$@"`. */
  readonly wrapper?: readonly string[];
}

export interface CliResult {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Half of the time that a command takes to start is spent on its sources: they are prepared once. */
const compileCache = fileURLToPath(new URL('../../node_modules/.cache/pbsfs', import.meta.url));

/** PATH and what the caller adds; no key file is found by accident. */
export function cleanEnvironment(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  return {
    PATH: process.env['PATH'],
    TZ: 'UTC',
    HOME: '/nonexistent',
    XDG_CONFIG_DIRS: '/nonexistent',
    NODE_COMPILE_CACHE: compileCache,
    ...more,
  };
}

/** A running command, for those that stay. */
export function startCli(args: readonly string[], options: CliOptions = {}): ChildProcess {
  const command = [...(options.wrapper ?? []), process.execPath, program, ...args];
  const [first = '', ...rest] = command;
  return spawn(first, rest, {
    cwd: options.cwd,
    env: cleanEnvironment(options.env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs a command to its end. */
export async function runCli(
  args: readonly string[],
  options: CliOptions = {},
): Promise<CliResult> {
  const child = startCli(args, options);
  const stdout: Buffer[] = [];
  let stderr = '';
  child.stdout?.on('data', (part: Buffer) => stdout.push(part));
  child.stderr?.on('data', (part: Buffer) => {
    stderr += part.toString();
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout: Buffer.concat(stdout), stderr };
}
