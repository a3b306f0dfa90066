import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerError, answerText, statusOf } from '../../../src/repository/pbs/answer-error.ts';

test('a status decides whether another try can help', () => {
  const codes = {
    400: 'failed',
    401: 'access-denied',
    403: 'access-denied',
    404: 'failed',
    301: 'failed',
    429: 'unreachable',
    500: 'unreachable',
    502: 'unreachable',
    503: 'unreachable',
    504: 'unreachable',
    501: 'failed',
  };
  for (const [status, code] of Object.entries(codes)) {
    const error = answerError(Number(status), Buffer.from('text'), '/call');
    assert.equal(error.code, code, status);
    assert.equal(statusOf(error), Number(status));
    assert.match(error.message, new RegExp(`^/call: the server answers ${status}.*'text'$`));
  }
  assert.equal(statusOf(new Error('other')), undefined);
});

test('the text of an answer is shown on one short line', () => {
  const rows: readonly [string, string | undefined][] = [
    ['', undefined],
    [' \n ', undefined],
    ['a\nb\tc\u0000d\u001b[31m', "'a b c d [31m'"],
    ['x'.repeat(400), `'${'x'.repeat(300)}…'`],
    ['<html><head><title> Bad Gateway </title>', "a web page, 'Bad Gateway'"],
    ['\n<!DOCTYPE html><p>secret', 'a web page'],
  ];
  for (const [text, shown] of rows) assert.equal(answerText(Buffer.from(text)), shown);
  assert.equal(
    answerError(400, Buffer.alloc(0), 'x').message,
    'x: the server answers 400 Bad Request',
  );
});
