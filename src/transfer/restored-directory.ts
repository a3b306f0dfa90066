/**
 * A directory that is being restored. Its metadata is set when the walk has left it and nothing in it is being
 * written any more: writing would change its time, and its permissions could forbid writing.
 */
import type { Metadata } from './metadata.ts';
import type { TargetDirectory } from './target-directory.ts';

/** Called once, before the directory is closed. Without metadata it keeps what it has. */
export type FinishDirectory = (directory: TargetDirectory, metadata: Metadata | undefined) => void;

export class RestoredDirectory {
  /** Undefined where it could not be made: all below is left out. */
  readonly directory: TargetDirectory | undefined;
  /** To be set at the end; undefined where it keeps what it has. */
  metadata: Metadata | undefined;
  readonly #parent: RestoredDirectory | undefined;
  readonly #finish: FinishDirectory;
  /** The walk, and everything in it that is not complete. */
  #users = 1;

  constructor(
    directory: TargetDirectory | undefined,
    parent: RestoredDirectory | undefined,
    finish: FinishDirectory,
  ) {
    this.directory = directory;
    this.#parent = parent;
    this.#finish = finish;
    parent?.retain();
  }

  /** Something in it is begun. */
  retain(): void {
    this.#users++;
  }

  /** Something in it is complete, or the walk has left it. */
  release(): void {
    this.#users--;
    if (this.#users > 0) return;
    try {
      if (this.directory !== undefined) this.#finish(this.directory, this.metadata);
    } finally {
      this.directory?.[Symbol.dispose]();
      this.#parent?.release();
    }
  }
}
