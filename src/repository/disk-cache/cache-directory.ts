/**
 * A directory that holds a cache of ours and nothing else, told by its tag:
 *
 *   CACHEDIR.TAG                    the signature that backup programs know and skip, and our own line
 *   ab/<64 hex>                     a stored chunk; ab are the first two digits of its digest
 *   ab/<64 hex>.<random>.tmp        a chunk that is being written, or was when somebody was killed
 *
 * Chunks may be plain data of a backup, so everything is made for its owner alone.
 *
 * Source of the tag: the Cache Directory Tagging Specification (bford.info/cachedir).
 */
import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { PbsfsError } from '../../errors.ts';

const tagName = 'CACHEDIR.TAG';
const tagText = `Signature: 8a477f597d28d172789f06886806bc55
# pbsfs chunk cache, version 1
# Anything in here may be deleted at any time.
`;
const temporarySuffix = '.tmp';

/**
 * Makes the directory ready: it exists and is tagged.
 * @throws PbsfsError `usage` where it holds something else; Node's errors where it cannot be made.
 */
export async function prepareCacheDirectory(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  if (await isTagged(directory)) return;
  const names = await readdir(directory);
  if (!names.every((name) => name.startsWith(`${tagName}.`) && name.endsWith(temporarySuffix))) {
    throw new PbsfsError('usage', 'is not empty and no cache of pbsfs', {
      context: { path: directory },
      hint: 'name an empty or a new directory with --cache-dir',
    });
  }
  await writeWhole(join(directory, tagName), Buffer.from(tagText));
}

async function isTagged(directory: string): Promise<boolean> {
  try {
    return (await readFile(join(directory, tagName), 'utf8')) === tagText;
  } catch {
    return false;
  }
}

/**
 * A file that is there as a whole or not at all, whoever is killed meanwhile. Without fsync: what a power
 * failure leaves behind does not fit its digest.
 * @throws Node's errors.
 */
export async function writeWhole(path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.${randomUUID()}${temporarySuffix}`;
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
