/** What follows from a key, and that the key itself shows nowhere. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { CryptConfig, plainDigest } from '../../src/formats/crypt-config.ts';
import { formatFingerprint } from '../../src/formats/fingerprint.ts';
import { Secret } from '../../src/formats/secret.ts';
import { chunkDigest, sha256, vectorKey } from '../support/encode-formats.ts';
import { expectError } from '../support/expect-error.ts';

const crypt = new CryptConfig(vectorKey);
const idKey = '7c2c013efd07f3b25717a485263343cd4d292a4b65c200bb3b18ea227abe225c';

test('the fingerprint follows the published vector', () => {
  assert.equal(
    formatFingerprint(crypt.fingerprint),
    '0e:ab:d4:46:0b:6e:b9:ca:34:50:23:de:e2:b7:78:c7:90:e5:4a:16:83:b9:65:9c:0a:57:ae:19:90:90:15:9b',
  );
});

test('a key of any other length is refused', () => {
  for (const size of [0, 16, 31, 33, 64]) {
    assert.throws(() => new CryptConfig(Buffer.alloc(size)), expectError('corrupt', /32/));
  }
});

test('the digest off the event loop is that of the calling thread, and of the independent encoder', async () => {
  for (const size of [0, 1, 31, 32, 64, 100_000]) {
    const data = Buffer.alloc(size, 'pbs');
    assert.deepEqual(await crypt.digest(data), chunkDigest(data, vectorKey));
    assert.deepEqual(crypt.digestSync(data), chunkDigest(data, vectorKey));
    assert.deepEqual(await plainDigest(data), sha256(data));
  }
});

test('digests take a view of a larger buffer', async () => {
  const whole = Buffer.from('__payload__');
  const view = new Uint8Array(whole.buffer, whole.byteOffset + 2, 7);
  assert.deepEqual(await plainDigest(view), sha256(Buffer.from('payload')));
  assert.deepEqual(await crypt.digest(view), chunkDigest(Buffer.from('payload'), vectorKey));
});

test('signatures are HMAC-SHA256 with the published id key', () => {
  const hmac = createHmac('sha256', Buffer.from(idKey, 'hex')).update('text').digest();
  assert.deepEqual(crypt.sign(Buffer.from('text')), hmac);
});

test('a later change of the given bytes does not change the key', async () => {
  const bytes = Buffer.from(vectorKey);
  const copy = new CryptConfig(bytes);
  const { payload, tag } = copy.encrypt(Buffer.from('x'), Buffer.alloc(16));
  bytes.fill(0);
  assert.deepEqual(copy.revealKey(), vectorKey);
  assert.deepEqual(copy.encrypt(Buffer.from('x'), Buffer.alloc(16)), { payload, tag });
  assert.equal(String(await copy.decrypt(payload, Buffer.alloc(16), tag)), 'x');
});

test('key bytes show neither in inspection nor in JSON', () => {
  const holders = [crypt, new Secret(vectorKey), { nested: [crypt, new Secret(vectorKey)] }];
  for (const holder of holders) {
    for (const shown of [
      inspect(holder, { showHidden: true, getters: true, depth: 10 }),
      JSON.stringify(holder),
      String(holder),
    ]) {
      assert.doesNotMatch(shown, /00 01 02 03|0,1,2,3|00010203|AAECAw/);
      assert.doesNotMatch(shown, /7c 2c 01 3e|124,44,1,62|7c2c013e|fCwBPv/);
    }
  }
});
