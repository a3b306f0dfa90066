import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorContext, PbsfsError } from '../../src/errors.ts';
import { createFailureLog } from '../../src/fuse/failure-log.ts';

function started(): {
  lines: string[];
  pass: (ms: number) => void;
  log: ReturnType<typeof createFailureLog>;
} {
  const lines: string[] = [];
  let time = 1_000_000;
  const logger = (level: string, message: string) => lines.push(`${level} ${message}`);
  const log = createFailureLog(logger, () => time);
  return {
    lines,
    log,
    pass: (ms) => {
      time += ms;
    },
  };
}

function damage(context: ErrorContext): PbsfsError {
  return new PbsfsError('corrupt', 'digest does not match', { context });
}

test('tells a failure with operation, place, reason and remedy', () => {
  const { lines, log } = started();
  const context = { snapshot: 'vm/100/2026-11-29T02:00:00Z', archive: 'drive-scsi0.img' };
  log('open', new PbsfsError('key-missing', 'no key ab:cd', { context, hint: 'give --keyfile' }));
  const place = 'vm/100/2026-11-29T02:00:00Z: drive-scsi0.img';
  assert.deepEqual(lines, [`warn open: ${place}: no key ab:cd (give --keyfile)`]);
});

test('tells the same failure once a minute, and how often it came', () => {
  const { lines, log, pass } = started();
  const failure = new PbsfsError('unreachable', 'no answer');
  log('read', failure);
  for (let i = 0; i < 5; i++) log('read', failure);
  pass(59_999);
  log('read', failure);
  assert.deepEqual(lines, ['error read: no answer']);
  pass(1);
  log('read', failure);
  assert.equal(lines[1], 'error read: no answer (and 6 times more since the last report)');
});

test('takes every offset of a bad chunk for the same failure, other chunks and archives not', () => {
  const { lines, log } = started();
  log('read', damage({ archive: 'a.img', offset: 0, length: 4096, digest: 'aa' }));
  log('read', damage({ archive: 'a.img', offset: 4096, length: 4096, digest: 'aa' }));
  log('read', damage({ archive: 'a.img', offset: 8192, length: 4096, digest: 'bb' }));
  log('read', damage({ archive: 'b.img', offset: 0, length: 4096, digest: 'aa' }));
  assert.equal(lines.length, 3);
});

test('bounds what it remembers', () => {
  const { lines, log } = started();
  for (let i = 0; i < 3000; i++) log('read', damage({ offset: i }));
  log('read', damage({ offset: 2999 }));
  log('read', damage({ offset: 0 }));
  assert.equal(lines.length, 3001);
});

test('gives the stack of a bug to those who debug', () => {
  const { lines, log } = started();
  log('read', new PbsfsError('bug', 'broken', { cause: new TypeError('broken') }));
  assert.equal(lines[0], 'error read: broken');
  assert.match(lines[1] ?? '', /^debug TypeError: broken\n {4}at /);
});
