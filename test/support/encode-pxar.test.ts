/** The test encoder is a witness only as far as it writes what the real one writes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodePxar } from './encode-pxar.ts';
import { readGolden } from './golden.ts';
import { goldenTree } from './golden-pxar.ts';
import { needs } from './requirements.ts';

test('the test encoder writes format v1 as the original does', { skip: needs('golden') }, () => {
  const { metadata, payload } = encodePxar(goldenTree(), { version: 1 });
  assert.ok(metadata.equals(readGolden('v2/rust/v1.pxar')));
  assert.equal(payload, undefined);
});

test('the test encoder writes a split archive as the original does', {
  skip: needs('golden'),
}, () => {
  const { metadata, payload } = encodePxar(goldenTree(), { version: 2 });
  assert.ok(metadata.equals(readGolden('v2/rust/v2.mpxar')));
  assert.ok(payload?.equals(readGolden('v2/rust/v2.ppxar')));
});
