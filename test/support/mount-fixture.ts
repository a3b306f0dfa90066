/**
 * Mounts the test tree from a child process for a test, and leaves nothing behind. A process that reads
 * its own mount with synchronous calls waits for itself, hence the child.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Command, Message, ServeOptions, State } from './serve-mount-tree.ts';

const server = fileURLToPath(new URL('serve-mount-tree.ts', import.meta.url));
const run = promisify(execFile);
const toolTimeout = 20_000;

export interface ToolResult {
  readonly status: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Runs a tool to its end, whatever it says. */
export async function tool(program: string, ...args: readonly string[]): Promise<ToolResult> {
  const settings = {
    timeout: toolTimeout,
    killSignal: 'SIGKILL' as const,
    encoding: 'buffer' as const,
    maxBuffer: 1 << 26,
    env: { ...process.env, LC_ALL: 'C' },
  };
  try {
    const { stdout, stderr } = await run(program, [...args], settings);
    return { status: 0, stdout, stderr: stderr.toString() };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: Buffer; stderr: Buffer };
    return { status: code ?? null, stdout, stderr: String(stderr) };
  }
}

export class TestMount implements AsyncDisposable {
  readonly path: string;
  readonly child: ChildProcess;
  readonly #cleanUp: () => Promise<void>;

  constructor(path: string, child: ChildProcess, cleanUp: () => Promise<void>) {
    this.path = path;
    this.child = child;
    this.#cleanUp = cleanUp;
  }

  at(...names: readonly string[]): string {
    return join(this.path, ...names);
  }

  async command(command: Command): Promise<unknown> {
    const answer = nextMessage(this.child);
    this.child.send(command);
    const message = await answer;
    return message.type === 'answer' ? message.value : undefined;
  }

  async state(): Promise<State> {
    return (await this.command('state')) as State;
  }

  /** Kills the process that serves, as a crash would. */
  async crash(): Promise<void> {
    const exit = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exit;
  }

  /** Waits until the process that serves has ended by itself. */
  async ended(): Promise<number | null> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      await once(this.child, 'exit', { signal: AbortSignal.timeout(toolTimeout) });
    }
    return this.child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cleanUp();
  }
}

async function nextMessage(child: ChildProcess): Promise<Message> {
  const controller = new AbortController();
  const signal = AbortSignal.any([controller.signal, AbortSignal.timeout(toolTimeout)]);
  try {
    const message = once(child, 'message', { signal }).then(([value]): Message => value);
    const exit = once(child, 'exit', { signal }).then(([status]): Message => {
      return { type: 'failed', code: 'exit', message: `server ended with ${status}` };
    });
    exit.catch(() => {});
    return await Promise.race([message, exit]);
  } finally {
    controller.abort();
  }
}

export class MountRefused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export interface MountSettings extends Partial<ServeOptions> {
  /** Command that runs the server; default: this Node. */
  readonly wrapper?: readonly string[];
  /** Becomes descriptor 4 of the server. */
  readonly descriptor?: number;
}

/** A directory for a test, removed afterwards. */
export async function temporaryDirectory(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'pbsfs-mount-'));
  return {
    path,
    [Symbol.asyncDispose]: async () => {
      await detachAllBelow(path);
      await rm(path, { recursive: true, force: true });
    },
  };
}

async function detachAllBelow(path: string): Promise<void> {
  const table = await readFile('/proc/self/mountinfo', 'utf8');
  for (const line of table.split('\n').reverse()) {
    const mountPoint = line.split(' ')[4];
    if (mountPoint?.startsWith(path) === true) await tool('umount', '-l', mountPoint);
  }
}

/**
 * @throws MountRefused where the driver refuses.
 */
export async function mountTestTree(settings: MountSettings = {}): Promise<TestMount> {
  const { wrapper = [], descriptor, ...options } = settings;
  const directory = await temporaryDirectory();
  const mountPoint = options.mountPoint ?? join(directory.path, 'mnt');
  if (options.mountPoint === undefined) await mkdir(mountPoint);
  const argument = JSON.stringify({ driver: 'kernel', ...options, mountPoint });
  const [program = process.execPath, ...args] = [...wrapper, process.execPath, server, argument];
  const stdio = ['ignore', 'inherit', 'inherit', 'ipc', descriptor ?? 'ignore'] as const;
  const child = spawn(program, args, { stdio: [...stdio] });
  const cleanUp = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      const exit = once(child, 'exit');
      if (child.connected) child.send('unmount-lazy');
      const timer = setTimeout(() => child.kill('SIGKILL'), 5000);
      await exit;
      clearTimeout(timer);
    }
    await directory[Symbol.asyncDispose]();
  };
  const message = await nextMessage(child).catch((error: unknown): Message => {
    return { type: 'failed', code: 'timeout', message: String(error) };
  });
  if (message.type === 'mounted') return new TestMount(mountPoint, child, cleanUp);
  await cleanUp();
  throw message.type === 'failed'
    ? new MountRefused(message.code, message.message)
    : new Error('unexpected answer');
}

/** Mounts that lie upon each other at a path. */
export async function mountsAt(path: string): Promise<number> {
  const table = await readFile('/proc/self/mountinfo', 'utf8');
  return table.split('\n').filter((line) => line.split(' ')[4] === path).length;
}
