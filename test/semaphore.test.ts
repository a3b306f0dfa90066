import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isPbsfsError } from '../src/errors.ts';
import { Semaphore } from '../src/semaphore.ts';

function gate() {
  let open: () => void = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

test('a capacity below 1 is a usage error', () => {
  for (const capacity of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.throws(
      () => new Semaphore(capacity),
      (error) => isPbsfsError(error, 'usage'),
    );
  }
});

test('no more than the capacity runs at once, in order of arrival, and all come to run', async () => {
  const semaphore = new Semaphore(3);
  const order: number[] = [];
  let running = 0;
  let most = 0;
  const job = (i: number) =>
    semaphore.run(async () => {
      order.push(i);
      most = Math.max(most, ++running);
      await sleep(i % 3);
      running--;
      return i;
    });
  const numbers = Array.from({ length: 40 }, (_, i) => i);
  assert.deepEqual(await Promise.all(numbers.map(job)), numbers);
  assert.deepEqual(order, numbers);
  assert.equal(most, 3);
});

test('an action that fails gives its place back', async () => {
  const semaphore = new Semaphore(1);
  await assert.rejects(
    semaphore.run(async () => {
      throw new Error('no');
    }),
    /no/,
  );
  assert.equal(await semaphore.run(async () => 'yes'), 'yes');
});

test('one who gives up while waiting leaves at once and takes no place', async () => {
  const semaphore = new Semaphore(1);
  const { open, opened } = gate();
  const first = semaphore.run(() => opened);
  const controller = new AbortController();
  let ran = false;
  const second = semaphore.run(async () => {
    ran = true;
  }, controller.signal);
  const third = semaphore.run(async () => 'third');
  controller.abort();
  await assert.rejects(second, (error) => isPbsfsError(error, 'aborted'));
  open();
  await first;
  assert.equal(await third, 'third');
  assert.equal(ran, false);
  // A signal that fires later concerns nobody.
  const late = new AbortController();
  await semaphore.run(async () => {}, late.signal);
  late.abort();
  assert.equal(await semaphore.run(async () => 'still free'), 'still free');
});

test('one who has given up already does not run', async () => {
  const semaphore = new Semaphore(1);
  const action = async () => assert.fail('ran');
  await assert.rejects(semaphore.run(action, AbortSignal.abort()), (error) =>
    isPbsfsError(error, 'aborted'),
  );
});
