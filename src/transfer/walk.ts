/**
 * Everything below a directory of the tree, depth first: a directory before what is in it, entries in the order
 * of its listing. For a pxar archive that is the order of its bytes, so each chunk is needed once.
 *
 * It keeps no stack of calls, so that depth costs only memory, and goes on past what cannot be read.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { throwIfAborted } from '../abort.ts';
import { isPbsfsError, PbsfsError, toPbsfsError } from '../errors.ts';
import type { Directory, DirectoryEntry, Node } from '../tree/node.ts';

export interface WalkEntry {
  /** Names from the start of the walk, none for the start itself. */
  readonly path: readonly Buffer[];
  readonly node: Node;
}

export interface WalkOptions {
  readonly signal?: AbortSignal;
  /** A directory that cannot be listed, or an entry that cannot be looked up: the walk goes on beside it. */
  readonly onError: (path: readonly Buffer[], error: PbsfsError) => void;
  /** False leaves out what is in a directory that was just given. */
  readonly descend?: (entry: WalkEntry) => boolean;
}

interface Level {
  readonly directory: Directory;
  readonly path: readonly Buffer[];
  readonly entries: readonly DirectoryEntry[];
  next: number;
}

/**
 * @throws PbsfsError `aborted`, `unreachable`, `timeout`, `bug`: what would fail for all the rest too.
 */
export async function* walkTree(
  start: Directory,
  options: WalkOptions,
): AsyncGenerator<WalkEntry, void, undefined> {
  const levels: Level[] = [];
  const breather = new Breather();
  let entry: WalkEntry | undefined = { path: [], node: start };
  for (;;) {
    if (entry !== undefined) {
      yield entry;
      const level = await openLevel(entry, options);
      if (level !== undefined) levels.push(level);
    }
    const level = levels.at(-1);
    if (level === undefined) return;
    const next = level.entries[level.next++];
    if (next === undefined) levels.pop();
    await breather.pause();
    throwIfAborted(options.signal);
    entry = next === undefined ? undefined : await openEntry(level, next, options);
  }
}

/** Where all is in memory, a walk and what follows it would keep signals, timers and sockets waiting. */
class Breather {
  #last = performance.now();

  async pause(): Promise<void> {
    if (performance.now() - this.#last < breathMilliseconds) return;
    await nextTurn();
    this.#last = performance.now();
  }
}

/** Nobody notices that a Ctrl-C waits so long. */
const breathMilliseconds = 20;

async function openLevel(entry: WalkEntry, options: WalkOptions): Promise<Level | undefined> {
  const { node, path } = entry;
  if (node.kind !== 'directory' || options.descend?.(entry) === false) return undefined;
  return await unlessBroken(path, options, async () => {
    const entries = await node.list(options.signal);
    return { directory: node, path, entries, next: 0 };
  });
}

async function openEntry(
  { directory, path: parent }: Level,
  { name, node: known }: DirectoryEntry,
  options: WalkOptions,
): Promise<WalkEntry | undefined> {
  const path = [...parent, name];
  return await unlessBroken(path, options, async () => {
    checkName(name);
    const node = known ?? (await directory.lookup(name, options.signal));
    if (node !== undefined) return { path, node };
    throw new PbsfsError('stale', 'was removed since it was listed');
  });
}

/** Such a name would mean another place, whoever made it up. */
function checkName(name: Buffer): void {
  const text = name.toString('latin1');
  if (text === '' || text === '.' || text === '..' || /[/\0]/.test(text)) {
    throw new PbsfsError('corrupt', 'is not the name of a file: left out');
  }
}

async function unlessBroken<T>(
  path: readonly Buffer[],
  options: WalkOptions,
  action: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    const known = toPbsfsError(error);
    if (isFatal(known)) throw known;
    options.onError(path, known);
    return undefined;
  }
}

/** True for what ends a whole job: the user's wish, a repository that does not answer, a fault of our own. */
export function isFatal(error: unknown): boolean {
  return isPbsfsError(error, 'aborted', 'unreachable', 'timeout', 'bug') || !isPbsfsError(error);
}
