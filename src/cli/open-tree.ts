/** From options to an opened repository and its tree; both are closed when the action has ended. */
import type { KeyRing } from '../archives/key-ring.ts';
import type { Logger } from '../log.ts';
import type { Repository } from '../repository/repository.ts';
import { type BackupTree, openBackupTree } from '../tree/backup-tree.ts';
import { openCached } from './cache-options.ts';
import type { CommandContext } from './command-context.ts';
import type { ReadOptions } from './common-options.ts';
import { exitCodes } from './exit-code.ts';
import { openKeyRing } from './keys.ts';
import { openLogger } from './logging.ts';
import { locateRepository, type RepositoryTarget } from './open-repository.ts';
import type { Ask } from './prompt.ts';

export interface TreeChoices extends ReadOptions {
  /** Unfinished snapshots too. */
  readonly all?: boolean;
  readonly onError?: 'eio' | 'zero';
}

export interface OpenedTree extends AsyncDisposable {
  readonly repository: Repository;
  readonly keys: KeyRing;
  readonly tree: BackupTree;
}

/** Opens keys and repository. */
export async function openTree(
  target: RepositoryTarget,
  options: TreeChoices,
  ask: Ask | undefined,
  logger: Logger,
): Promise<OpenedTree> {
  const { keyFile, namespace } = target;
  const keyfile =
    options.keyfile.length === 0 && keyFile !== undefined ? [keyFile] : options.keyfile;
  const { masterKeyfile } = options;
  const keys = await openKeyRing({ keyfile, masterKeyfile }, ask, logger);
  const repository = await openCached(target, options, logger);
  const tree = openBackupTree(repository, {
    keys,
    logger,
    start: namespace,
    cacheChunks: options.cacheChunks,
    concurrency: options.concurrency,
    prefetch: options.prefetch,
    onError: options.onError ?? 'eio',
    all: options.all ?? false,
    ...(options.timeFormat === undefined ? {} : { timeFormat: options.timeFormat }),
  });
  return { repository, keys, tree, [Symbol.asyncDispose]: () => tree[Symbol.asyncDispose]() };
}

/** Runs `action` on the tree; zeros given for damaged bytes make the command end with exit code 6. */
export async function withTree(
  options: TreeChoices,
  { ask }: CommandContext,
  action: (tree: BackupTree) => Promise<void>,
): Promise<void> {
  const logger = openLogger(options);
  const target = await locateRepository(options, ask, logger);
  await using opened = await openTree(target, options, ask, logger);
  await action(opened.tree);
  if (opened.tree.damage > 0) process.exitCode ??= exitCodes.corrupt;
}
