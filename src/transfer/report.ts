/** What a transfer has done, what it could not do for want of rights, and what failed. */
import { isPbsfsError, type PbsfsError } from '../errors.ts';

export interface Failure {
  /** Names below the start of the transfer. */
  readonly path: readonly Buffer[];
  readonly error: PbsfsError;
}

export interface Progress {
  readonly entries: number;
  readonly files: number;
  /** Of file contents, holes included. */
  readonly bytes: number;
}

export class TransferReport implements Progress {
  entries = 0;
  files = 0;
  bytes = 0;
  readonly failures: Failure[] = [];
  /** What was left undone → the number of entries. */
  readonly losses: Map<string, number> = new Map();

  fail(path: readonly Buffer[], error: PbsfsError): void {
    this.failures.push({ path, error });
  }

  /** @param what in the plural, such as `device nodes`. */
  lose(what: string): void {
    this.losses.set(what, (this.losses.get(what) ?? 0) + 1);
  }

  /** The failure that decides about the exit code: damaged data first, since it cannot be tried again. */
  get worst(): PbsfsError | undefined {
    const damage = this.failures.find(({ error }) =>
      isPbsfsError(error, 'corrupt', 'chunk-missing'),
    );
    return (damage ?? this.failures[0])?.error;
  }
}
