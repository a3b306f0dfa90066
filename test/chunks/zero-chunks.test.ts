import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zeroBytes, zeroDigest } from '../../src/chunks/zero-chunks.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { chunkDigest, otherKey, vectorKey } from '../support/encode-formats.ts';

const fourMebibytes = 4 * 1024 * 1024;

test('the digests of 4 MiB of zeros are the published ones', () => {
  // Published with the format: plain, and with the key 00…1f.
  const plain = 'bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8';
  const keyed = '348571e12bbbedb529def1f1394316e338a01945d871df9ef792617ceb13d636';
  const crypt = new CryptConfig(vectorKey);
  for (let times = 0; times < 2; times++) {
    assert.equal(zeroDigest(fourMebibytes).toString('hex'), plain);
    assert.equal(zeroDigest(fourMebibytes, crypt).toString('hex'), keyed);
  }
});

test('each length and each key has its own digest', () => {
  for (const length of [1, 4096, 540_672]) {
    for (const key of [undefined, vectorKey, otherKey]) {
      const crypt = key === undefined ? undefined : new CryptConfig(key);
      assert.ok(zeroDigest(length, crypt).equals(chunkDigest(Buffer.alloc(length), key)));
    }
  }
});

test('zero bytes come in any length up to a chunk, from one memory', () => {
  const large = zeroBytes(16 * 1024 * 1024);
  const small = zeroBytes(5);
  assert.equal(large.length, 16 * 1024 * 1024);
  assert.ok(large.equals(Buffer.alloc(large.length)));
  assert.equal(small.length, 5);
  assert.equal(small.buffer, large.buffer);
});
