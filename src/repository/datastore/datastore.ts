/** Recognizes a datastore directory and opens it. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { formatError, PbsfsError } from '../../errors.ts';
import { backupTypes } from '../../formats/snapshot-path.ts';
import { type Logger, silentLogger } from '../../log.ts';
import type { Repository } from '../repository.ts';
import { ChunkDirectories } from './chunk-directories.ts';
import { DatastoreRepository } from './datastore-repository.ts';
import { translateErrno } from './errno.ts';

export interface DatastoreOptions {
  /** Further places to look for chunks, after the datastore's own. */
  readonly chunkDirs?: readonly string[];
  readonly logger?: Logger;
}

/**
 * Opens the datastore at `path`, read-only.
 * @throws PbsfsError `not-found` where `path` or a chunk directory does not exist, or is no datastore;
 * `not-directory`; `access-denied`
 */
export async function openDatastore(
  path: string,
  { chunkDirs = [], logger = silentLogger }: DatastoreOptions = {},
): Promise<Repository> {
  // The process may change its directory later.
  const root = resolve(path);
  await requireDirectory(root);
  const own = `${root}/.chunks`;
  const hasChunks = await isDirectory(own);
  if (!hasChunks && !(await hasBackups(root))) {
    throw new PbsfsError('not-found', 'is not a datastore: has no .chunks, ns, vm, ct or host', {
      context: { path: root },
      hint: 'name the directory that holds .chunks',
    });
  }
  const others = await Promise.all(chunkDirs.map(chunkDirectory));
  if (!hasChunks && others.length === 0) {
    logger('warn', `backups can be listed, but not read: ${path}: has no .chunks`);
  }
  if (hasChunks) await warnIfClosed(own, logger);
  return new DatastoreRepository(path, root, new ChunkDirectories([own, ...others]));
}

/** Links are followed here: where the datastore lies is the administrator's choice. */
async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    const known = translateErrno(error, path);
    if (known.code === 'not-found') return false;
    throw known;
  }
}

async function requireDirectory(path: string): Promise<void> {
  try {
    if ((await stat(path)).isDirectory()) return;
  } catch (error) {
    throw translateErrno(error, path);
  }
  throw new PbsfsError('not-directory', 'is not a directory', { context: { path } });
}

async function hasBackups(root: string): Promise<boolean> {
  const found = await Promise.all(
    ['ns', ...backupTypes].map((name) => isDirectory(`${root}/${name}`)),
  );
  return found.includes(true);
}

/** Either a directory of chunks, or another datastore with such a directory. */
async function chunkDirectory(path: string): Promise<string> {
  const directory = resolve(path);
  await requireDirectory(directory);
  const inner = `${directory}/.chunks`;
  return (await isDirectory(inner)) ? inner : directory;
}

async function warnIfClosed(chunks: string, logger: Logger): Promise<void> {
  try {
    await stat(`${chunks}/.`); // needs the right to look into it
  } catch (error) {
    const why = formatError(translateErrno(error, chunks));
    logger('warn', `backups can be listed, but not read: ${why}`);
  }
}
