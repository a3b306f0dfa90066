/**
 * A directory that holds a cache of ours and nothing else:
 *
 *   CACHEDIR.TAG               the signature that backup programs know and skip, and our own line
 *   ab/<64 hex>                a stored chunk; ab are the first two digits of its digest
 *   ab/<64 hex>.<uuid>.tmp     one that is being written, or was when its writer was killed
 *
 * Chunks may be plain data of a backup, so everything is made for its owner alone.
 *
 * Source of the tag: the Cache Directory Tagging Specification (bford.info/cachedir).
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { lstat, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PbsfsError } from '../../errors.ts';

const tagName = 'CACHEDIR.TAG';
const tagText = `Signature: 8a477f597d28d172789f06886806bc55
# pbsfs chunk cache, version 1
# All of it may be deleted at any time.
`;
const prefixPattern = /^[0-9a-f]{2}$/;
const chunkPattern = /^[0-9a-f]{64}$/;
const temporaryPattern = /\.[0-9a-f-]{36}\.tmp$/;

/**
 * Makes the directory ready: it is there and tagged.
 * @throws PbsfsError `usage` where it holds something else; Node's errors where it cannot be made or looked into.
 */
export async function prepareCacheDirectory(directory: string): Promise<void> {
  await makeDirectory(directory);
  if (await isTagged(directory)) return;
  const names = await readdir(directory);
  if (!names.every((name) => temporaryPattern.test(name))) {
    throw new PbsfsError('usage', 'is neither empty nor a chunk cache of pbsfs', {
      context: { path: directory },
      hint: 'name a new or an empty directory with --cache-dir',
    });
  }
  await writeWhole(join(directory, tagName), Buffer.from(tagText));
}

/** With those above it. Node's own `recursive` never returns where a filesystem answers ENOENT, as /proc does. */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (isErrno(error, 'EEXIST')) return;
    const parent = dirname(path);
    if (!isErrno(error, 'ENOENT') || existsSync(parent)) throw error;
    await makeDirectory(parent);
    await makeDirectory(path);
  }
}

async function isTagged(directory: string): Promise<boolean> {
  try {
    return (await readFile(join(directory, tagName), 'utf8')) === tagText;
  } catch {
    return false;
  }
}

/** Where the chunk of that digest lies. */
export function chunkPath(directory: string, digest: Uint8Array): string {
  const hex = Buffer.from(digest).toString('hex');
  return join(directory, hex.slice(0, 2), hex);
}

/** Stores a chunk, in a cache that may have been emptied meanwhile. @throws PbsfsError, Node's errors */
export async function writeChunkFile(path: string, raw: Uint8Array): Promise<void> {
  try {
    await writeWhole(path, raw);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
    await prepareCacheDirectory(dirname(dirname(path)));
    await makeDirectory(dirname(path));
    await writeWhole(path, raw);
  }
}

/**
 * A file that is there as a whole or not at all, whoever is killed meanwhile. Without fsync: what a power failure
 * makes of it does not fit its digest.
 */
async function writeWhole(path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    const handle = await open(temporary, 'wx', 0o600);
    try {
      await handle.writeFile(bytes);
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {});
    throw error;
  }
}

/** Whether it is Node's error of that code. */
export function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** One file of the cache. */
export interface CacheFile {
  readonly path: string;
  readonly size: number;
  /** Milliseconds since the epoch: when a chunk was last used. */
  readonly usedAt: number;
  /** Not finished, or left behind. */
  readonly isTemporary: boolean;
}

/** All files of the cache, one system call after the other so that readers keep the thread pool. */
export async function* listCacheFiles(directory: string): AsyncGenerator<CacheFile> {
  for (const prefix of await namesIn(directory)) {
    if (!prefixPattern.test(prefix)) continue;
    for (const name of await namesIn(join(directory, prefix))) {
      const isTemporary = temporaryPattern.test(name);
      if (!isTemporary && !chunkPattern.test(name)) continue;
      const path = join(directory, prefix, name);
      const stats = await lstat(path).catch(() => undefined);
      if (!stats?.isFile()) continue;
      yield { path, size: stats.size, usedAt: stats.mtimeMs, isTemporary };
    }
  }
}

/** None where it is gone, or no directory. */
async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (isErrno(error, 'ENOENT') || isErrno(error, 'ENOTDIR')) return [];
    throw error;
  }
}
