/** Node's errno in the project's words: the one place where file errors of a datastore are translated. */
import { getSystemErrorMap } from 'node:util';
import { PbsfsError, toPbsfsError } from '../../errors.ts';

const accessHint =
  'PBS keeps its files for user and group backup, and .chunks closed to others (mode 0750): run as root or as a member of that group';

function isErrno(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && 'code' in error;
}

/** `input/output error (EIO)` */
function describeErrno(error: NodeJS.ErrnoException): string {
  const [, text] = getSystemErrorMap().get(error.errno ?? 0) ?? [];
  return text === undefined ? error.message : `${text} (${error.code})`;
}

/** A failed call on `path` as our own error: `not-found`, `access-denied`, `timeout` or `failed`. */
export function translateErrno(error: unknown, path: string): PbsfsError {
  if (!isErrno(error)) return toPbsfsError(error);
  const options = { context: { path }, cause: error };
  switch (error.code) {
    case 'ENOENT':
    // A file stands where a directory is needed: what would be below it does not exist.
    case 'ENOTDIR':
    case 'ENAMETOOLONG':
      return new PbsfsError('not-found', 'does not exist', options);
    case 'EACCES':
    case 'EPERM':
      return new PbsfsError('access-denied', 'permission denied', { ...options, hint: accessHint });
    case 'ETIMEDOUT':
      return new PbsfsError('timeout', describeErrno(error), options);
    default:
      return new PbsfsError('failed', describeErrno(error), options);
  }
}
