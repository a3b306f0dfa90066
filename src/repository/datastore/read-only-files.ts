/**
 * The only file operations that a datastore needs, none of which can change anything: look, list, read.
 * All of them give errors of our own, with the path.
 */
import { constants, type Dirent } from 'node:fs';
import { type FileHandle, lstat, open, readdir } from 'node:fs/promises';
import { throwIfAborted, unlessAborted } from '../../abort.ts';
import { isPbsfsError, PbsfsError } from '../../errors.ts';
import { translateErrno } from './errno.ts';

/** What stands at a path itself: symbolic links are not followed, as PBS does not either. */
export type PathKind = 'directory' | 'file' | 'other';

/** One operation on `path`. A dead network disk never answers, so the signal leaves it behind. */
async function attempt<T>(
  path: string,
  signal: AbortSignal | undefined,
  action: () => Promise<T>,
): Promise<T> {
  throwIfAborted(signal);
  try {
    return await unlessAborted(action(), signal);
  } catch (error) {
    throw translateErrno(error, path);
  }
}

/** `action`'s result, or undefined where its path does not exist. */
export async function ifExists<T>(action: Promise<T>): Promise<T | undefined> {
  try {
    return await action;
  } catch (error) {
    if (isPbsfsError(error, 'not-found')) return undefined;
    throw error;
  }
}

function kindOf(entry: Pick<Dirent, 'isDirectory' | 'isFile'>): PathKind {
  if (entry.isDirectory()) return 'directory';
  return entry.isFile() ? 'file' : 'other';
}

/**
 * @returns undefined where nothing is there.
 * @throws PbsfsError `access-denied`, `failed`, `aborted`
 */
export async function pathKind(path: string, signal?: AbortSignal): Promise<PathKind | undefined> {
  const stats = await ifExists(attempt(path, signal, () => lstat(path)));
  return stats === undefined ? undefined : kindOf(stats);
}

/**
 * Names of one kind in a directory, in no order; none where the directory does not exist.
 * @throws PbsfsError `access-denied`, `failed`, `aborted`
 */
export async function listNames(
  path: string,
  kind: PathKind,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  // Where the filesystem gives no type with a name, Node asks lstat by itself.
  const read = attempt(path, signal, () => readdir(path, { withFileTypes: true }));
  const entries = (await ifExists(read)) ?? [];
  return entries.filter((entry) => kindOf(entry) === kind).map((entry) => entry.name);
}

export interface ReadFileOptions {
  /** Most bytes that the file may have. */
  readonly maxLength: number;
  /** Follow a symbolic link at the path itself. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * A whole regular file in one buffer.
 * @throws PbsfsError `not-found`, `access-denied`, `failed`, `aborted`; `corrupt` where it is too long or no
 * regular file.
 */
export async function readWholeFile(path: string, options: ReadFileOptions): Promise<Buffer> {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const follow = options.follow === true ? 0 : constants.O_NOFOLLOW;
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | follow;
  return attempt(path, options.signal, async () => {
    const handle = await open(path, flags);
    try {
      return await readHandle(handle, path, options);
    } finally {
      await handle.close();
    }
  });
}

async function readHandle(
  handle: FileHandle,
  path: string,
  { maxLength, signal }: ReadFileOptions,
): Promise<Buffer> {
  const stats = await handle.stat();
  if (!stats.isFile()) {
    throw new PbsfsError('corrupt', 'is not a regular file', { context: { path } });
  }
  if (stats.size > maxLength) {
    const message = `file has ${stats.size} bytes, more than the ${maxLength} it may have`;
    throw new PbsfsError('corrupt', message, { context: { path } });
  }
  return await readFully(handle, stats.size, signal);
}

/** Up to `length` bytes: fewer only where the file ends before. */
async function readFully(
  handle: FileHandle,
  length: number,
  signal: AbortSignal | undefined,
): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  let filled = 0;
  while (filled < length) {
    throwIfAborted(signal);
    const { bytesRead } = await handle.read(buffer, filled, length - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}
