/** `--cache-dir` and `--cache-size`: chunks kept on a local disk. */
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { PbsfsError } from '../errors.ts';
import type { Logger } from '../log.ts';
import { DiskCache } from '../repository/disk-cache/disk-cache.ts';
import { withDiskCache } from '../repository/disk-cache/with-disk-cache.ts';
import type { Repository } from '../repository/repository.ts';
import { withLastListing } from '../repository/with-last-listing.ts';
import type { RepositoryTarget } from './open-repository.ts';

export interface CacheOptions {
  /** Absolute. */
  readonly cacheDir?: string;
  /** Bytes. */
  readonly cacheSize?: number;
}

const unitBytes: Readonly<Record<string, number>> = {
  '': 1,
  K: 2 ** 10,
  M: 2 ** 20,
  G: 2 ** 30,
  T: 2 ** 40,
};
/** Room for the disks of one virtual machine, compressed. */
const defaultCacheSize = 16 * 2 ** 30;

/** For commands that read archives. */
export function addCacheOptions(command: Command): Command {
  return command
    .addOption(
      new Option('--cache-dir <dir>', 'keep chunks in this directory, for the next time')
        // Absolute: a mount in the background leaves the directory that it was started in.
        .argParser((text: string) => resolve(text)),
    )
    .addOption(
      new Option(
        '--cache-size <bytes>',
        'most that is kept there, with K, M, G or T behind (default: 16G)',
      ).argParser(parseSize),
    );
}

/**
 * Opens the repository, behind the cache where one is asked for.
 * @throws PbsfsError `usage`, and what `target.open` throws
 */
export async function openCached(
  target: RepositoryTarget,
  { cacheDir: directory, cacheSize }: CacheOptions,
  logger: Logger,
): Promise<Repository> {
  if (directory === undefined) {
    if (cacheSize === undefined) return await target.open();
    throw new PbsfsError('usage', 'option --cache-size has no meaning without --cache-dir');
  }
  const maxBytes = cacheSize ?? defaultCacheSize;
  const cache = await DiskCache.open({ directory, maxBytes, logger });
  const repository = await target.open((inner) => withLastListing(inner, { logger }));
  return withDiskCache(repository, cache);
}

/** `500M`, `20G`, or plain bytes. */
function parseSize(text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,15})([KMGT]?)$/i.exec(text) ?? [];
  const bytes = Number(digits) * (unitBytes[unit.toUpperCase()] ?? 0);
  if (bytes > 0 && Number.isSafeInteger(bytes)) return bytes;
  throw new InvalidArgumentError('It must be a number of bytes such as 500M or 20G.');
}
