/**
 * Mounts to read from, each in a process of its own, and fresh for each run: what the kernel has cached of a
 * mount goes with it.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Contestant, Counts, Sample } from './bench-case.ts';
import { costOf, run, startServer } from './processes.ts';
import { startTestServer } from './test-server.ts';

export const pbsfs: string = fileURLToPath(new URL('../../bin/pbsfs.js', import.meta.url));
const memoryMount = fileURLToPath(new URL('memory-mount.ts', import.meta.url));
const countingMount = fileURLToPath(new URL('counting-mount.ts', import.meta.url));

/** Of `pbsfs mount`: 64 chunks. */
export const mountCacheBytes: number = 64 * 4 * 1024 * 1024;

export interface Mount extends AsyncDisposable {
  readonly directory: string;
  /** Of the serving process. */
  readonly pid: number;
  /** What the serving process has cost. */
  cost(): Omit<Sample, 'seconds'>;
}

/** Starts a server for a directory that it is given, and resolves when it is mounted. */
export type StartMount = (directory: string) => Promise<ChildProcess>;

export async function mount(start: StartMount): Promise<Mount> {
  const directory = mkdtempSync(join(tmpdir(), 'pbsfs-bench-mount-'));
  const child = await start(directory).catch((error) => {
    rmdirSync(directory);
    throw error;
  });
  return {
    directory,
    pid: child.pid ?? 0,
    cost: () => (child.pid === undefined ? {} : costOf(child.pid)),
    [Symbol.asyncDispose]: async () => {
      // The one way to end a mount that all of them understand.
      const ended = once(child, 'exit');
      await run('umount', [directory]);
      await ended;
      rmdirSync(directory);
    },
  };
}

/** `pbsfs mount` of a repository. */
export function mountPbsfs(
  repository: string,
  options: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
): StartMount {
  return async (directory) => {
    const args = [pbsfs, 'mount', ...options, repository, directory];
    return (await startServer(process.execPath, args, env)).child;
  };
}

/** A mount of the same driver whose one file, `image`, is served from memory. */
export function mountMemory(size: number): StartMount {
  return async (directory) => {
    const args = [memoryMount, directory, String(size)];
    return (await startServer(process.execPath, args)).child;
  };
}

/** Reads, and adds what that has cost the serving process. */
export async function measured(mounted: Mount, read: () => Promise<Sample>): Promise<Sample> {
  const { cpuSeconds: before = 0 } = mounted.cost();
  const sample = await read();
  const { cpuSeconds: after, ...cost } = mounted.cost();
  return { ...cost, ...sample, ...(after === undefined ? {} : { cpuSeconds: after - before }) };
}

/** A contestant that reads a file of a fresh mount in some way. */
export function readingMount(
  name: string,
  start: StartMount,
  file: string,
  read: (path: string) => Promise<Sample>,
): Contestant {
  return {
    name,
    run: () => readFresh(start, file, read),
  };
}

/** How a server is reached and mounted. */
export interface ServerMount {
  readonly store: string;
  /** Milliseconds for each request. */
  readonly latency?: number;
  /** Of `pbsfs mount`. */
  readonly options?: readonly string[];
}

/** The same over a fresh test server, which counts the requests. */
export function readingServer(
  name: string,
  { store, latency, options }: ServerMount,
  file: string,
  read: (path: string) => Promise<Sample>,
): Contestant {
  return {
    name,
    run: async () => {
      await using server = await startTestServer(store, latency);
      await using mounted = await mount(mountPbsfs(server.repository, options, server.env));
      const sample = await measured(mounted, () => read(join(mounted.directory, file)));
      return { ...sample, counts: await server.counts() };
    },
  };
}

/** Counts what one reading of a datastore directory takes: `requests` of the kernel, and `chunks`. */
export function countingReads(
  name: string,
  store: string,
  file: string,
  read: (path: string) => Promise<Sample>,
): Contestant {
  return {
    name,
    countsOnly: true,
    run: async () => {
      const directory = mkdtempSync(join(tmpdir(), 'pbsfs-bench-counts-'));
      const countsFile = join(directory, 'counts.json');
      const start: StartMount = async (point) =>
        (await startServer(process.execPath, [countingMount, store, point, countsFile])).child;
      try {
        const sample = await readFresh(start, file, read);
        return { ...sample, counts: JSON.parse(readFileSync(countsFile, 'utf8')) as Counts };
      } finally {
        rmSync(directory, { recursive: true });
      }
    },
  };
}

/** Reads once from a mount that is gone when this resolves. */
async function readFresh(
  start: StartMount,
  file: string,
  read: (path: string) => Promise<Sample>,
): Promise<Sample> {
  await using mounted = await mount(start);
  return await measured(mounted, () => read(join(mounted.directory, file)));
}
