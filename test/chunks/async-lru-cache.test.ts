import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AsyncLruCache } from '../../src/chunks/async-lru-cache.ts';
import { isPbsfsError } from '../../src/errors.ts';

interface Value {
  readonly name: string;
  readonly bytes: number;
}

function cacheOf(maxBytes: number): AsyncLruCache<Value> {
  return new AsyncLruCache<Value>({ maxBytes, sizeOf: (value) => value.bytes });
}

/** A load that a test ends by hand. */
function manualLoad(value: Value) {
  const { promise, resolve, reject } = Promise.withResolvers<Value>();
  const signals: AbortSignal[] = [];
  const load = (signal: AbortSignal) => {
    signals.push(signal);
    return promise;
  };
  return { load, signals, succeed: () => resolve(value), fail: (error: Error) => reject(error) };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const isAborted = (error: unknown) => isPbsfsError(error, 'aborted');

test('a bound below 1 is a usage error', () => {
  for (const maxBytes of [0, -5, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.throws(
      () => cacheOf(maxBytes),
      (error) => isPbsfsError(error, 'usage'),
    );
  }
});

test('a value is loaded once however many ask, and remembered', async () => {
  const cache = cacheOf(100);
  const { load, signals, succeed } = manualLoad({ name: 'a', bytes: 10 });
  const asked = Array.from({ length: 16 }, () => cache.get('a', load));
  await turn();
  assert.equal(cache.peek('a'), undefined);
  assert.deepEqual([cache.has('a'), cache.has('b')], [true, false]);
  succeed();
  const values = await Promise.all(asked);
  assert.equal(new Set(values).size, 1);
  assert.equal(await cache.get('a', load), values[0]);
  assert.equal(cache.peek('a'), values[0]);
  assert.equal(cache.has('a'), true);
  assert.equal(signals.length, 1);
});

test('the least recently used values go first, until the bytes fit', async () => {
  const cache = cacheOf(100);
  const put = (name: string, bytes: number) => cache.get(name, async () => ({ name, bytes }));
  await put('a', 40);
  await put('b', 40);
  await put('a', 40);
  await put('c', 60);
  assert.deepEqual(
    ['a', 'b', 'c'].map((key) => cache.peek(key)?.name),
    ['a', undefined, 'c'],
  );
  await put('d', 100);
  assert.deepEqual(
    ['a', 'c', 'd'].map((key) => cache.peek(key)?.name),
    [undefined, undefined, 'd'],
  );
});

test('there is room for one value even above the bound, alone', async () => {
  const cache = cacheOf(10);
  const put = (name: string, bytes: number) => cache.get(name, async () => ({ name, bytes }));
  await put('small', 1);
  await put('large', 1000);
  assert.equal(cache.peek('small'), undefined);
  assert.equal(cache.peek('large')?.name, 'large');
  await put('empty', 0);
  assert.equal(cache.peek('large'), undefined);
  assert.equal(cache.peek('empty')?.name, 'empty');
});

test('a failure is shared by those who wait, and gone before they see it', async () => {
  const cache = cacheOf(100);
  const { load, signals, fail } = manualLoad({ name: 'a', bytes: 1 });
  const retried: Promise<Value>[] = [];
  const again = { name: 'a', bytes: 1 };
  const failures = Array.from({ length: 3 }, () =>
    cache.get('a', load).catch((error: Error) => {
      retried.push(cache.get('a', async () => again));
      return error;
    }),
  );
  await turn();
  const error = new Error('no');
  fail(error);
  assert.deepEqual(await Promise.all(failures), [error, error, error]);
  assert.equal(signals.length, 1);
  // Each asked again from its handler and got the new load, not the old failure.
  assert.deepEqual(await Promise.all(retried), [again, again, again]);
});

test('a load that throws at once is a failure like any other', async () => {
  const cache = cacheOf(100);
  const broken = () => {
    throw new Error('at once');
  };
  await assert.rejects(cache.get('a', broken), /at once/);
  assert.equal((await cache.get('a', async () => ({ name: 'a', bytes: 1 }))).name, 'a');
});

test('one who gives up leaves alone and at once', async () => {
  const cache = cacheOf(100);
  const { load, signals, succeed } = manualLoad({ name: 'a', bytes: 1 });
  const controller = new AbortController();
  const leaving = cache.get('a', load, controller.signal);
  const staying = cache.get('a', load, new AbortController().signal);
  await turn();
  controller.abort();
  await assert.rejects(leaving, isAborted);
  assert.equal(signals[0]?.aborted, false);
  succeed();
  assert.equal((await staying).name, 'a');
});

test('the load is stopped when the last one has left, and the next one starts another', async () => {
  const cache = cacheOf(100);
  const first = manualLoad({ name: 'first', bytes: 1 });
  const controllers = [new AbortController(), new AbortController()];
  const leaving = controllers.map(({ signal }) => cache.get('a', first.load, signal));
  await turn();
  for (const controller of controllers) controller.abort();
  for (const one of leaving) await assert.rejects(one, isAborted);
  assert.equal(first.signals[0]?.aborted, true);

  const second = manualLoad({ name: 'second', bytes: 1 });
  const asked = cache.get('a', second.load);
  await turn();
  // The abandoned load ends late, well or not: it must not touch its successor.
  first.succeed();
  await turn();
  assert.equal(cache.peek('a'), undefined);
  second.succeed();
  assert.equal((await asked).name, 'second');
  assert.equal(cache.peek('a')?.name, 'second');
});

test('an abandoned load that fails disturbs nobody', async () => {
  const cache = cacheOf(100);
  const { load, fail } = manualLoad({ name: 'a', bytes: 1 });
  const controller = new AbortController();
  const leaving = cache.get('a', load, controller.signal);
  await turn();
  controller.abort();
  await assert.rejects(leaving, isAborted);
  fail(new Error('nobody waits'));
  await turn();
});

test('a caller who has given up already starts nothing', async () => {
  const cache = cacheOf(100);
  const load = async () => assert.fail('loaded');
  await assert.rejects(cache.get('a', load, AbortSignal.abort()), isAborted);
});

test('a signal that fires after the value came changes nothing', async () => {
  const cache = cacheOf(100);
  const controller = new AbortController();
  const { load, signals, succeed } = manualLoad({ name: 'a', bytes: 1 });
  const asked = cache.get('a', load, controller.signal);
  succeed();
  assert.equal((await asked).name, 'a');
  controller.abort();
  assert.equal(signals[0]?.aborted, false);
  assert.equal(cache.peek('a')?.name, 'a');
});

test('clear forgets, and a load in flight does not bring its value back', async () => {
  const cache = cacheOf(100);
  await cache.get('b', async () => ({ name: 'b', bytes: 1 }));
  const { load, succeed } = manualLoad({ name: 'old', bytes: 1 });
  const waiting = cache.get('a', load);
  await turn();
  cache.clear();
  assert.equal(cache.peek('b'), undefined);
  const fresh = cache.get('a', async () => ({ name: 'new', bytes: 1 }));
  assert.equal((await fresh).name, 'new');
  succeed();
  assert.equal((await waiting).name, 'old');
  await turn();
  assert.equal(cache.peek('a')?.name, 'new');
});
