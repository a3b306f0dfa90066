/**
 * A pxar archive of 150,000 small files in a local datastore, a third of them in one directory, walked and read with
 * ordinary tools through the mount.
 */
import { join } from 'node:path';
import {
  type BenchCase,
  type Contestant,
  type Environment,
  memoryWithin,
  type PreparedCase,
  rate,
  type Sample,
  type Wanted,
} from '../support/bench-case.ts';
import { timedPbsfs } from '../support/commands.ts';
import {
  countingReads,
  mount,
  mountCacheBytes,
  mountPbsfs,
  readingMount,
} from '../support/mounts.ts';
import { run, timed } from '../support/processes.ts';
import { makeTree, type TreeDataset } from '../support/pxar-dataset.ts';

/** Beside the cache. */
const allowedMiB = 200;
const countedName = 'counted';
/** What every attribute that find(1) can show is asked by. */
const allAttributes = '%p %y %m %U %G %s %b %n %i %D %T@ %C@ %A@ %l\\n';

function treeOf(environment: Environment): TreeDataset {
  return makeTree(join(environment.directory, 'store'), environment.treeFiles);
}

function prepared(
  work: PreparedCase['work'],
  contestants: readonly Contestant[],
  wanted: readonly Wanted[],
): PreparedCase {
  return { work, contestants, wanted, [Symbol.asyncDispose]: async () => {} };
}

/** From the start of the program until the archive's root is listed. */
export const treeReady: BenchCase = {
  name: 'tree-ready',
  title: 'Mounting a datastore, and listing the root of a pxar archive',
  prepare: async (environment) => {
    const { store, archivePath } = treeOf(environment);
    const untilThen = async (look: (path: string) => Promise<unknown>): Promise<Sample> => {
      const start = performance.now();
      await using mounted = await mount(mountPbsfs(store));
      await look(join(mounted.directory, archivePath));
      return { ...mounted.cost(), seconds: (performance.now() - start) / 1000 };
    };
    const contestants = [
      { name: 'mounted', run: () => untilThen(async () => {}) },
      { name: 'listed', run: () => untilThen((path) => run('ls', ['-l', path])) },
    ];
    return prepared({ amount: 1, unit: 'ms' }, contestants, []);
  },
};

/** An ordinary directory, and one of 50,000 files: each costs only itself. */
export const treeList: BenchCase = {
  name: 'tree-ls',
  title: '`ls -l` of one directory of a pxar archive',
  prepare: async (environment) => {
    const { store, archivePath, ordinary, wide } = treeOf(environment);
    const list = (path: string) => timed('ls', ['-l', path]);
    const contestants: Contestant[] = [];
    const wanted: Wanted[] = [];
    for (const directory of [ordinary, wide]) {
      const name = `${directory.files} files`;
      const path = join(archivePath, directory.path);
      const counted = `${name}, ${countedName}`;
      contestants.push(
        readingMount(name, mountPbsfs(store), path, list),
        countingReads(counted, store, path, list),
      );
      wanted.push({
        what: `chunks for ${name}, which lie in ${directory.chunks}, and the way there`,
        bound: 'at most',
        // For each directory above: its head, and its table.
        limit: directory.chunks + 2 * directory.path.split('/').length,
        unit: '',
        value: (medians) => medians.count(counted, 'chunks'),
      });
    }
    return prepared({ amount: 1, unit: 'ms' }, contestants, wanted);
  },
};

/** Names and types, then every attribute, then the command line's own search. */
export const treeFind: BenchCase = {
  name: 'tree-find',
  title: '`find` over a pxar archive of many files',
  prepare: async (environment) => {
    const { store, archivePath, entries } = treeOf(environment);
    const find = async (path: string): Promise<Sample> => {
      const start = performance.now();
      const lines = await run('bash', ['-c', 'find "$1" | wc -l', 'bash', path]);
      if (Number(lines) !== entries) throw new Error(`find saw ${lines} of ${entries} entries`);
      return { seconds: (performance.now() - start) / 1000 };
    };
    const findAll = (path: string) => timed('find', [path, '-printf', allAttributes]);
    const contestants = [
      readingMount('find', mountPbsfs(store), archivePath, find),
      readingMount('find -printf', mountPbsfs(store), archivePath, findAll),
      { name: 'pbsfs find', run: () => timedPbsfs(['find', '-r', store, archivePath]) },
      countingReads(countedName, store, archivePath, findAll),
    ];
    return prepared({ amount: entries, unit: 'entries/s' }, contestants, [
      entriesPerSecond('find', entries),
      entriesPerSecond('find -printf', entries),
      requestsPerEntry('with `find -printf`', entries, 1),
      memoryWithin('find', mountCacheBytes, allowedMiB),
      memoryWithin('find -printf', mountCacheBytes, allowedMiB),
    ]);
  },
};

/** Every file, by as few programs as their names allow. */
export const treeCat: BenchCase = {
  name: 'tree-cat',
  title: '`cat` of all files of a pxar archive',
  prepare: async (environment) => {
    const { store, archivePath, files, entries, contentBytes } = treeOf(environment);
    const cat = async (path: string): Promise<Sample> => {
      const start = performance.now();
      const script = 'find "$1" -type f -print0 | xargs -0 cat | wc -c';
      const bytes = await run('bash', ['-c', script, 'bash', path]);
      if (Number(bytes) !== contentBytes)
        throw new Error(`cat saw ${bytes} of ${contentBytes} bytes`);
      return { seconds: (performance.now() - start) / 1000 };
    };
    const contestants = [
      readingMount('cat', mountPbsfs(store), archivePath, cat),
      countingReads(countedName, store, archivePath, cat),
    ];
    return prepared({ amount: files, unit: 'files/s' }, contestants, [
      // Open, read and release; a file that is read to its end may be asked once more.
      requestsPerEntry('with `find` and `cat`', entries, 5),
      memoryWithin('cat', mountCacheBytes, allowedMiB),
    ]);
  },
};

function entriesPerSecond(name: string, entries: number): Wanted {
  return {
    what: `with \`${name}\``,
    bound: 'at least',
    limit: 15_000,
    unit: ' entries/s',
    value: rate(name, entries),
  };
}

function requestsPerEntry(what: string, entries: number, limit: number): Wanted {
  return {
    what: `requests of the kernel for each entry, ${what}`,
    bound: 'at most',
    limit,
    value: (medians) => {
      const requests = medians.count(countedName, 'requests');
      return requests === undefined ? undefined : requests / entries;
    },
  };
}
