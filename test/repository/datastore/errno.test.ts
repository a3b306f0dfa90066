import assert from 'node:assert/strict';
import { constants } from 'node:os';
import { test } from 'node:test';
import { PbsfsError } from '../../../src/errors.ts';
import { translateErrno } from '../../../src/repository/datastore/errno.ts';

function errnoError(code: keyof typeof constants.errno): Error {
  const message = `${code}: as Node words it, open '/store/x'`;
  return Object.assign(new Error(message), {
    code,
    errno: -constants.errno[code],
    syscall: 'open',
  });
}

test('each errno becomes a code that says what to make of it, with the path', () => {
  const expected = [
    ['ENOENT', 'not-found', 'does not exist'],
    ['ENOTDIR', 'not-found', 'does not exist'],
    ['ENAMETOOLONG', 'not-found', 'does not exist'],
    ['EACCES', 'access-denied', 'permission denied'],
    ['EPERM', 'access-denied', 'permission denied'],
    ['ETIMEDOUT', 'timeout', 'connection timed out (ETIMEDOUT)'],
    ['EIO', 'failed', 'i/o error (EIO)'],
    ['EMFILE', 'failed', 'too many open files (EMFILE)'],
  ] as const;
  for (const [errno, code, message] of expected) {
    const cause = errnoError(errno);
    const error = translateErrno(cause, '/store/x');
    assert.deepEqual([error.code, error.message], [code, message]);
    assert.deepEqual(error.context, { path: '/store/x' });
    assert.equal(error.cause, cause);
  }
  assert.match(translateErrno(errnoError('EACCES'), '/store/x').hint ?? '', /0750.*group/);
});

test('an error of our own stays as it is, and what nobody foresaw is a bug', () => {
  const own = new PbsfsError('corrupt', 'x');
  assert.equal(translateErrno(own, '/store'), own);
  assert.equal(translateErrno(new TypeError('x'), '/store').code, 'bug');
});
