/** Files that the user names beside the backups: keys, logs. Their failures in the project's words. */
import { readFile } from 'node:fs/promises';
import { type ErrorCode, PbsfsError } from '../errors.ts';

const codes: Readonly<Record<string, readonly [code: ErrorCode, why: string]>> = {
  ENOENT: ['not-found', 'does not exist'],
  ENOTDIR: ['not-found', 'does not exist'],
  EACCES: ['access-denied', 'permission denied'],
  EPERM: ['access-denied', 'permission denied'],
  EROFS: ['access-denied', 'is on a read-only filesystem'],
  EISDIR: ['is-directory', 'is a directory'],
};

/** What node:fs threw for `path` as our own error. @param what such as `key file`. */
export function fileError(error: unknown, what: string, path: string): PbsfsError {
  const name = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  const [code, why] = codes[name] ?? (['failed', `cannot be used: ${name}`] as const);
  return new PbsfsError(code, `${what} ${why}`, { context: { path }, cause: error });
}

/** @throws PbsfsError `not-found`, `access-denied`, `is-directory`, `failed` */
export async function readUserFile(path: string, what: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw fileError(error, what, path);
  }
}
