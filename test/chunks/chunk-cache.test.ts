import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ChunkCache } from '../../src/chunks/chunk-cache.ts';
import { isPbsfsError } from '../../src/errors.ts';
import { until } from '../support/until.ts';

const megabyte = 1024 * 1024;

function counting() {
  const loads: string[] = [];
  const get = (cache: ChunkCache, key: string, length = megabyte) =>
    cache.get(key, async () => {
      loads.push(key);
      return Buffer.alloc(length);
    });
  return { loads, get };
}

test('a capacity below 1 is a usage error', () => {
  for (const chunks of [0, -1, 0.5, Number.NaN]) {
    assert.throws(
      () => new ChunkCache({ chunks }),
      (error) => isPbsfsError(error, 'usage'),
    );
  }
});

test('the capacity counts chunks of 4 MiB, in bytes', async () => {
  const { loads, get } = counting();
  const cache = new ChunkCache({ chunks: 2 });
  using _lease = cache.acquire();
  for (const key of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) await get(cache, key);
  await get(cache, 'a');
  assert.equal(loads.length, 8, '8 chunks of 1 MiB fit into 2 of 4 MiB');
  await get(cache, 'i', 4 * megabyte);
  loads.length = 0;
  for (const key of ['i', 'a', 'h', 'g']) await get(cache, key);
  assert.deepEqual(loads, [], 'the four least recent have gone');
  await get(cache, 'b');
  assert.deepEqual(loads, ['b']);
});

test('one chunk of 16 MiB fits into a capacity of 1', async () => {
  const { loads, get } = counting();
  const cache = new ChunkCache({ chunks: 1 });
  await get(cache, 'a', 16 * megabyte);
  await get(cache, 'a', 16 * megabyte);
  assert.deepEqual(loads, ['a']);
});

test('the content is dropped with the last lease, and not before', async () => {
  const { loads, get } = counting();
  const cache = new ChunkCache({ chunks: 1 });
  const first = cache.acquire();
  const second = cache.acquire();
  await get(cache, 'a');
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  await get(cache, 'a');
  assert.deepEqual(loads, ['a'], 'disposing one lease twice does not end the other');
  second[Symbol.dispose]();
  await get(cache, 'a');
  assert.deepEqual(loads, ['a', 'a']);
});

test('what was left keeps half of the cache, the oldest goes first', async () => {
  const { loads, get } = counting();
  const cache = new ChunkCache({ chunks: 2 });
  using _lease = cache.acquire();
  for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) {
    await get(cache, key);
    cache.leave(key);
  }
  assert.deepEqual(
    ['a', 'b', 'c', 'd', 'e', 'f'].filter((key) => cache.has(key)),
    ['c', 'd', 'e', 'f'],
  );
  await get(cache, 'c');
  cache.find('d');
  for (const key of ['g', 'h']) {
    await get(cache, key);
    cache.leave(key);
  }
  assert.equal(loads.length, 8);
  assert.deepEqual(
    ['c', 'd', 'e', 'f', 'g', 'h'].filter((key) => cache.has(key)),
    ['c', 'd', 'e', 'f', 'g', 'h'],
    'what is asked for again is not left any more',
  );
  cache.leave('never seen');
  cache.leave('g');
  cache.leave('g');
  await get(cache, 'i');
  cache.leave('i');
  assert.deepEqual(
    ['c', 'd', 'e', 'f', 'g', 'h', 'i'].filter((key) => cache.has(key)),
    ['c', 'd', 'f', 'g', 'h', 'i'],
  );
});

test('what is read without a lease goes too, once nobody reads on', async () => {
  const { loads, get } = counting();
  const cache = new ChunkCache({ chunks: 4, lingerSeconds: 0.2 });
  await get(cache, 'a');
  await sleep(100);
  await get(cache, 'b');
  await sleep(150);
  assert.ok(cache.has('a'), 'a read starts the time anew');
  await until('all is dropped', async () => !cache.has('a') && !cache.has('b'));
  await get(cache, 'a');
  assert.deepEqual(loads, ['a', 'b', 'a']);
});
