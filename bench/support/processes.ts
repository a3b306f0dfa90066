/** Child processes: started, waited for, and asked what they cost. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Sample } from './bench-case.ts';

/** Kernel clock ticks per second in `/proc/PID/stat`: USER_HZ, fixed at 100 for programs. */
const ticksPerSecond = 100;

export interface RunOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** Default: dropped. */
  readonly stdout?: 'ignore' | 'pipe' | number;
}

/** Runs a command to its end. @throws Error with the end of its messages where it fails. */
export async function run(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  const child = spawn(command, args, {
    stdio: ['ignore', options.stdout ?? 'pipe', 'pipe'],
    env: { ...process.env, ...options.env },
  });
  let [out, messages] = ['', ''];
  child.stdout?.on('data', (data: Buffer) => {
    out += data.toString();
  });
  child.stderr?.on('data', (data: Buffer) => {
    messages = (messages + data.toString()).slice(-2000);
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}: exit ${code}: ${messages}`);
  return out;
}

/** The same, with its time. */
export async function timed(command: string, args: readonly string[]): Promise<Sample> {
  const start = performance.now();
  await run(command, args, { stdout: 'ignore' });
  return { seconds: (performance.now() - start) / 1000 };
}

/** Reads a file with dd(1). */
export function dd(...options: readonly string[]): (path: string) => Promise<Sample> {
  return (path) => timed('dd', [`if=${path}`, 'of=/dev/null', 'status=none', ...options]);
}

/** Starts a server and waits for its first line on standard output. */
export async function startServer(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<{ readonly child: ChildProcess; readonly line: string }> {
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  });
  const lines = createInterface({ input: child.stdout });
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${command} ${args.join(' ')}: ended with ${code} before it was ready`);
  });
  const [line] = (await Promise.race([once(lines, 'line'), ended])) as [string];
  ended.catch(() => {});
  return { child, line };
}

/** Ends a server that this process started. */
export async function stopServer(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}

/** What a process has cost so far; nothing where it is gone or there is no /proc. */
export function costOf(pid: number): Omit<Sample, 'seconds'> {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const peak = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
    // The program's name, in parentheses, may hold anything: count from behind it.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    return {
      cpuSeconds: ticks / ticksPerSecond,
      ...(peak === undefined ? {} : { peakBytes: Number(peak) * 1024 }),
    };
  } catch {
    return {};
  }
}

/** Bytes that a process has in memory now. */
export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

/** Makes `peakBytes` of `costOf` count from now on. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** Whether a command is on PATH. */
export async function isInstalled(command: string): Promise<boolean> {
  try {
    await run('which', [command]);
    return true;
  } catch {
    return false;
  }
}
