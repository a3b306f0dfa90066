/** The golden datastore, or a copy that a test may break, in a real mount by the command line. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type MountProcess, startMount, temporaryMountPoint } from '../cli/mounted.ts';
import { goldenPassphrase, goldenPath, goldenStore } from './golden.ts';
import { goldenKeyNames } from './golden-keys.ts';
import { temporaryDirectory } from './mount-fixture.ts';

const execute = promisify(execFile);

/** `--keyfile` for every golden key. */
export const goldenKeyArgs: readonly string[] = goldenKeyNames.flatMap((name) => [
  '--keyfile',
  goldenPath(`keys/${name}.json`),
]);

export class StoreMount implements AsyncDisposable {
  readonly path: string;
  readonly served: MountProcess;
  readonly #resources: AsyncDisposableStack;

  constructor(path: string, served: MountProcess, resources: AsyncDisposableStack) {
    this.path = path;
    this.served = served;
    this.#resources = resources;
  }

  at(...names: readonly string[]): string {
    return join(this.path, ...names);
  }

  /** Lines of the log that speak of all these words. */
  logOf(...words: readonly string[]): string[] {
    return this.served.stderr
      .split('\n')
      .filter((line) => words.every((word) => line.includes(word)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

/** @param args of `pbsfs mount`, without repository and directory. */
export async function mountStore(
  args: readonly string[] = [],
  store: string = goldenStore,
): Promise<StoreMount> {
  await using resources = new AsyncDisposableStack();
  const point = resources.use(await temporaryMountPoint());
  const env = { PBS_ENCRYPTION_PASSWORD: goldenPassphrase };
  const served = resources.use(await startMount([...args, store, point.path], env));
  return new StoreMount(point.path, served, resources.move());
}

/** A copy of the golden datastore that may be written to, removed on disposal. */
export async function copyGoldenStore(): Promise<AsyncDisposable & { readonly path: string }> {
  const directory = await temporaryDirectory();
  const path = join(directory.path, 'store');
  await cp(goldenStore, path, { recursive: true });
  // The golden files are write-protected.
  await run('chmod', '-R', 'u+w', path);
  return { path, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() };
}

/** What a tool prints; it must succeed and complain about nothing. */
export async function run(program: string, ...args: readonly string[]): Promise<string> {
  return (await runBinary(program, ...args)).toString();
}

/** The same for what is no text. */
export async function runBinary(program: string, ...args: readonly string[]): Promise<Buffer> {
  const { stdout, stderr } = await execute(program, args, {
    encoding: 'buffer',
    env: { ...process.env, LC_ALL: 'C' },
    killSignal: 'SIGKILL',
    maxBuffer: 1 << 26,
    timeout: 60_000,
  });
  assert.equal(stderr.toString(), '', `${program} ${args.join(' ')}`);
  return stdout;
}

/** The same for a Python program. */
export async function python(script: string, ...args: readonly string[]): Promise<string> {
  return await run('python3', '-c', script, ...args);
}
