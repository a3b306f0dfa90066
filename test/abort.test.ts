import assert from 'node:assert/strict';
import { test } from 'node:test';
import { abortError, throwIfAborted, unlessAborted } from '../src/abort.ts';
import { isPbsfsError, PbsfsError } from '../src/errors.ts';

test('a signal that fired is aborted, a deadline is a timeout, and our own reason stays', async () => {
  assert.equal(abortError(AbortSignal.abort()).code, 'aborted');
  assert.equal(abortError(AbortSignal.abort('whatever')).code, 'aborted');
  const deadline = AbortSignal.timeout(1);
  await new Promise((resolve) => deadline.addEventListener('abort', resolve));
  assert.equal(abortError(deadline).code, 'timeout');
  const own = new PbsfsError('stale', 'x');
  assert.equal(abortError(AbortSignal.abort(own)), own);
});

test('only a signal that fired throws', () => {
  throwIfAborted(undefined);
  throwIfAborted(new AbortController().signal);
  assert.throws(
    () => throwIfAborted(AbortSignal.abort()),
    (error) => isPbsfsError(error, 'aborted'),
  );
});

test('a wait ends with the promise, or with the signal where that is first', async () => {
  const controller = new AbortController();
  const { signal } = controller;
  assert.equal(await unlessAborted(Promise.resolve(1), signal), 1);
  assert.equal(await unlessAborted(Promise.resolve(2), undefined), 2);
  await assert.rejects(unlessAborted(Promise.reject(new Error('own')), signal), /own/);
  const never = unlessAborted(new Promise(() => {}), signal);
  controller.abort();
  await assert.rejects(never, (error) => isPbsfsError(error, 'aborted'));
  await assert.rejects(unlessAborted(new Promise(() => {}), signal), (error) =>
    isPbsfsError(error, 'aborted'),
  );
});
