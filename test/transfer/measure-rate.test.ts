import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { PbsfsError } from '../../src/errors.ts';
import { measureRate } from '../../src/transfer/measure-rate.ts';
import { expectError } from '../support/expect-error.ts';

/** Each piece takes so long, wherever it is done: the rate grows with the places. */
function steady(milliseconds: number): () => Promise<number> {
  return async () => {
    await sleep(milliseconds);
    return 1000;
  };
}

test('the rate is that of all places together', async () => {
  const one = await measureRate(steady(20), { atOnce: 1, seconds: 0.4 });
  const eight = await measureRate(steady(20), { atOnce: 8, seconds: 0.4 });
  // Never more than 1000 bytes in 20 ms; timers may be late on a busy machine.
  assert.ok(one <= 52_000 && one > 10_000, `${one} bytes/s`);
  assert.ok(eight > 3 * one, `${eight} against ${one} bytes/s`);
});

test('it ends when its time is over, and breaks off what is going on', async () => {
  let stopped = 0;
  const work = async (signal: AbortSignal): Promise<number> => {
    signal.addEventListener('abort', () => stopped++);
    await sleep(10, undefined, { signal });
    return 1;
  };
  const startedAt = performance.now();
  await measureRate(work, { atOnce: 4, seconds: 0.1 });
  assert.ok(performance.now() - startedAt < 1000);
  assert.ok(stopped >= 4);
});

test('slow work gets more time, so that each place has finished twice', async () => {
  let count = 0;
  const work = async (): Promise<number> => {
    await sleep(60);
    count++;
    return 1;
  };
  await measureRate(work, { atOnce: 4, seconds: 0.05 });
  assert.ok(count >= 8, `${count} pieces`);
});

test('work that finishes nowhere has the rate 0, after ten seconds', async (t) => {
  const work = (signal: AbortSignal): Promise<number> =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const late = new AbortController();
  t.mock.method(AbortSignal, 'timeout', (milliseconds: number) => {
    assert.equal(milliseconds, 10_000);
    return late.signal;
  });
  const rate = measureRate(work, { atOnce: 2, seconds: 0.01 });
  late.abort();
  assert.equal(await rate, 0);
});

test('a failure ends it at all places and is its own', async () => {
  let isOver = false;
  let runs = 0;
  const work = async (signal: AbortSignal): Promise<number> => {
    signal.addEventListener('abort', () => {
      isOver = true;
    });
    runs++;
    if (runs === 3) throw new PbsfsError('corrupt', 'chunk is damaged');
    await sleep(5);
    return 1;
  };
  await assert.rejects(
    measureRate(work, { atOnce: 2, seconds: 10 }),
    expectError('corrupt', /chunk is damaged/),
  );
  assert.ok(isOver);
});

test('who gives up is told so', async () => {
  const signal = AbortSignal.abort();
  await assert.rejects(
    measureRate(steady(1), { atOnce: 2, seconds: 10, signal }),
    expectError('aborted'),
  );
});
