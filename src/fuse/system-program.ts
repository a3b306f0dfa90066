/**
 * Runs the programs of the system that mount and unmount. Called by mount(8) there is no PATH, and a
 * program that gets a privileged task is rather taken from its usual place anyway.
 */
import { spawn } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { PbsfsError } from '../errors.ts';

/** `/run/wrappers/bin` is where NixOS keeps what is setuid. */
const usualPlaces = ['/run/wrappers/bin', '/usr/bin', '/bin', '/usr/sbin', '/sbin'];

export interface Finished {
  readonly status: number;
  /** What it said on standard error, in one line. */
  readonly message: string;
}

/** The absolute path of a program, or undefined where this machine does not have it. */
export async function findProgram(name: string): Promise<string | undefined> {
  const path = (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((place) => place.startsWith('/'));
  for (const place of [...usualPlaces, ...path]) {
    const program = join(place, name);
    const found = await access(program, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return program;
  }
  return undefined;
}

/**
 * Starts a program with `descriptor` as its descriptor 3 and waits for its end.
 * @throws PbsfsError `unsupported` where it cannot be started.
 */
export function runProgram(
  program: string,
  args: readonly string[],
  options: { readonly descriptor?: number; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      // Nothing else of the environment: it may hold passwords.
      env: { PATH: usualPlaces.join(delimiter), LC_ALL: 'C', ...options.env },
      cwd: '/',
      stdio: ['ignore', 'ignore', 'pipe', options.descriptor ?? 'ignore'],
    });
    let message = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      message += chunk.toString();
    });
    child.on('error', (cause) => {
      reject(new PbsfsError('unsupported', `cannot run ${program}`, { cause }));
    });
    // 'close' would wait for a helper that stays in the background with our pipe.
    child.on('exit', (status) => {
      setImmediate(() => {
        child.stderr?.destroy();
        resolve({ status: status ?? -1, message: message.trim().replaceAll(/\s*\n\s*/g, '; ') });
      });
    });
  });
}
