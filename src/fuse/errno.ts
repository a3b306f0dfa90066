/**
 * Error numbers of Linux by name, and the one that each failure of ours becomes for the program that
 * reads the mount. `docs/semantics.md` shows the same table.
 *
 * Source: Linux `uapi/asm-generic/errno-base.h` and `errno.h`.
 */
import type { ErrorCode } from '../errors.ts';

export const errno = {
  ENOENT: 2,
  EINTR: 4,
  EIO: 5,
  ENXIO: 6,
  EBADF: 9,
  EAGAIN: 11,
  EACCES: 13,
  ENOTDIR: 20,
  EISDIR: 21,
  EINVAL: 22,
  ENOTTY: 25,
  EROFS: 30,
  ERANGE: 34,
  ENAMETOOLONG: 36,
  ENOSYS: 38,
  ENODATA: 61,
  EPROTO: 71,
  EOPNOTSUPP: 95,
  ETIMEDOUT: 110,
  ESTALE: 116,
  ENOKEY: 126,
  EKEYREJECTED: 129,
} as const;

export type ErrnoName = keyof typeof errno;

/** What a reader of the mount gets for a failure. A chunk that is missing is damage, never absence. */
export const errnoOf = {
  'not-found': 'ENOENT',
  stale: 'ESTALE',
  corrupt: 'EIO',
  'chunk-missing': 'EIO',
  'key-missing': 'ENOKEY',
  'key-wrong': 'EKEYREJECTED',
  'access-denied': 'EACCES',
  'read-only': 'EROFS',
  unreachable: 'EIO',
  timeout: 'ETIMEDOUT',
  aborted: 'EINTR',
  usage: 'EINVAL',
  'is-directory': 'EISDIR',
  'not-directory': 'ENOTDIR',
  unsupported: 'EOPNOTSUPP',
  failed: 'EIO',
  bug: 'EIO',
} as const satisfies Record<ErrorCode, ErrnoName>;

/** The one for a named operation: readdir(3) takes ENOENT for the end of the listing. */
export function errnoFor(operation: string, code: ErrorCode): ErrnoName {
  const name = errnoOf[code];
  return name === 'ENOENT' && operation.startsWith('readdir') ? 'ESTALE' : name;
}
