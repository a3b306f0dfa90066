/** A whole repository as a filesystem: the root that the mount, `ls` and `cat` walk. */
import { parseBackupTime } from '../formats/snapshot-path.ts';
import type { Repository } from '../repository/repository.ts';
import { rootInode } from './inode.ts';
import { NamespaceDirectory } from './namespace-directory.ts';
import type { Directory } from './node.ts';
import type { TimeFormat } from './time-format.ts';
import { TreeContext, type TreeOptions } from './tree-context.ts';

export interface BackupTree extends AsyncDisposable {
  readonly root: Directory;
  readonly timeFormat: TimeFormat;
  /** Ranges that were read as zeros instead of failing (`onError: 'zero'`). */
  readonly damage: number;
  /** A time in PBS's form or in the tree's own; undefined where `text` is neither. */
  parseTime(text: string): number | undefined;
}

/**
 * Shows `repository` from the namespace `options.start` down. Disposing the tree disposes the repository.
 * @throws PbsfsError `usage` for a cache or concurrency below 1.
 */
export function openBackupTree(repository: Repository, options: TreeOptions): BackupTree {
  const context = new TreeContext(repository, options);
  return {
    root: new NamespaceDirectory(context, options.start ?? [], rootInode),
    timeFormat: context.timeFormat,
    get damage() {
      return context.damage;
    },
    parseTime: (text) => context.timeFormat.parse(text) ?? parseBackupTime(text),
    [Symbol.asyncDispose]: () => context[Symbol.asyncDispose](),
  };
}
