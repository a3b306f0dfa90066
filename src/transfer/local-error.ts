/** Failures of the machine that is restored to, in the words of `errors.ts`. */
import { PbsfsError, toPbsfsError } from '../errors.ts';

/** `ENOENT`, `EPERM`, …; undefined for what did not come from a system call. */
export function errnoCode(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && /^E[A-Z0-9]+$/.test(code) ? code : undefined;
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'not permitted',
  EEXIST: 'exists already',
  ENOTDIR: 'something else stands where a directory is needed',
  ELOOP: 'a link stands where it must not be followed',
  EISDIR: 'a directory stands there already',
  ENAMETOOLONG: "the name is too long for the target's filesystem",
  EILSEQ: "the name is not allowed by the target's filesystem",
  EINVAL: "the target's filesystem does not accept it",
  EROFS: 'the target is read-only',
  EMFILE: 'too many open files',
  ENFILE: 'too many open files',
  EFBIG: "the file is too large for the target's filesystem",
};

/** A full disk or an exhausted quota, translated or not: nothing more can be written. */
export function isDiskFull(error: unknown): boolean {
  const code = errnoCode(error instanceof PbsfsError ? error.cause : error);
  return code === 'ENOSPC' || code === 'EDQUOT';
}

/** Runs what touches the disk; a failure names the path. */
export function locally<T>(path: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw toLocalError(error).at({ path });
  }
}

/** Whatever was thrown; a failed system call becomes `access-denied` or `failed`. */
export function toLocalError(error: unknown): PbsfsError {
  const code = errnoCode(error);
  if (code === undefined || error instanceof PbsfsError) return toPbsfsError(error);
  if (isDiskFull(error)) {
    const what = code === 'EDQUOT' ? 'the quota of the target is used up' : 'the target is full';
    return new PbsfsError('failed', what, { hint: 'make room and run it again', cause: error });
  }
  const reason = Object.hasOwn(reasons, code) ? reasons[code] : undefined;
  const denied = code === 'EACCES' || code === 'EPERM';
  return new PbsfsError(denied ? 'access-denied' : 'failed', reason ?? code, { cause: error });
}
