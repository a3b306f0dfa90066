import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { sipHash } from '../../../src/formats/pxar/sip-hash.ts';
import { referenceSipHash } from '../../support/encode-pxar.ts';
import { readGolden } from '../../support/golden.ts';
import { needs } from '../../support/requirements.ts';

function hex(bytes: Uint8Array): string {
  const { high, low } = sipHash(bytes);
  return `0x${((BigInt(high) << 32n) | BigInt(low)).toString(16).padStart(16, '0')}`;
}

test('the hash of names is that of the original', () => {
  assert.equal(hex(Buffer.alloc(0)), '0x76614015f8d1bb6c');
  assert.equal(hex(Buffer.from('a')), '0x0c26e9067c2c7bcf');
  assert.equal(hex(Buffer.from('abcdefgh')), '0xea82693c92359125');
  assert.equal(hex(Buffer.from('abcdefghi')), '0xba687b3dd67d2933');
});

test('the hash of names agrees with all golden vectors', { skip: needs('golden') }, () => {
  const { siphash } = JSON.parse(readGolden('v2/vectors.json').toString()) as {
    siphash: { input_b64: string; hash: string }[];
  };
  assert.ok(siphash.length > 80);
  for (const { input_b64, hash } of siphash)
    assert.equal(hex(Buffer.from(input_b64, 'base64')), hash);
});

test('the hash of any bytes is that of an implementation with 64-bit integers', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 70 }), (bytes) => {
      const { high, low } = sipHash(bytes);
      assert.equal((BigInt(high) << 32n) | BigInt(low), referenceSipHash(bytes));
    }),
  );
});
