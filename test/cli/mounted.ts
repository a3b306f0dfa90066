/** Mounts by the command line in a child process; disposing one leaves nothing behind. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../support/until.ts';
import { startCli } from './run-cli.ts';

const run = promisify(execFile);

/** An empty directory; whatever is mounted there goes with it. */
export async function temporaryMountPoint(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'pbsfs mount '));
  return {
    path,
    [Symbol.asyncDispose]: async () => {
      while (await isMounted(path)) await run('umount', ['-l', path]);
      await rmdir(path);
    },
  };
}

export async function isMounted(path: string): Promise<boolean> {
  const table = await readFile('/proc/self/mounts', 'utf8');
  return table.split('\n').some((line) => line.split(' ')[1] === path.replaceAll(' ', '\\040'));
}

/** A mount that is being read may wait for a server before it ends. */
const graceMilliseconds = 30_000;

/** `pbsfs mount` in the foreground. */
export class MountProcess implements AsyncDisposable {
  readonly child: ChildProcess;
  /** The exit code. */
  readonly ended: Promise<number | null>;
  stdout = '';
  stderr = '';

  constructor(child: ChildProcess) {
    this.child = child;
    child.stdout?.on('data', (part: Buffer) => {
      this.stdout += part.toString();
    });
    child.stderr?.on('data', (part: Buffer) => {
      this.stderr += part.toString();
    });
    this.ended = once(child, 'close').then(([code]) => code as number | null);
  }

  async stop(signal: NodeJS.Signals): Promise<number | null> {
    this.child.kill(signal);
    return await this.ended;
  }

  /** @throws where the mount does not end by itself; it is killed then. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const timer = setTimeout(() => this.child.kill('SIGKILL'), graceMilliseconds);
    await this.stop('SIGTERM');
    clearTimeout(timer);
    assert.notEqual(this.child.signalCode, 'SIGKILL', 'the mount did not end by SIGTERM');
  }
}

/** Resolves when the ready line, or whatever the command prints first, is there. */
export async function startMount(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<MountProcess> {
  const mounted = new MountProcess(startCli(['mount', ...args], { env }));
  const hasLine = async (): Promise<boolean> => mounted.stdout.includes('\n');
  const ended = mounted.ended.then(() => assert.fail(`ended early: ${mounted.stderr}`));
  try {
    await Promise.race([until('the mount is up', hasLine), ended]);
  } catch (error) {
    // Nobody else would end it, and the test would wait for it for ever.
    await mounted.stop('SIGTERM');
    throw error;
  }
  ended.catch(() => {});
  return mounted;
}
