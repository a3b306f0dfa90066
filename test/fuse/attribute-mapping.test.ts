import assert from 'node:assert/strict';
import { test } from 'node:test';
import { overrideAttributes, ownerRoot } from '../../src/fuse/attribute-mapping.ts';

const attributes = {
  mode: 0o104775,
  uid: 1000,
  gid: 1001,
  nlink: 1,
  size: 5,
  blocks: 1,
  mtime: { seconds: 1, nanos: 2 },
};

test('replaces owner and group, each for itself', () => {
  assert.deepEqual(overrideAttributes({ uid: 7 })(attributes), { ...attributes, uid: 7 });
  assert.deepEqual(overrideAttributes({ gid: 0 })(attributes), { ...attributes, gid: 0 });
  assert.deepEqual(overrideAttributes(ownerRoot)(attributes), { ...attributes, uid: 0, gid: 0 });
});

test('takes permission bits away and leaves the type and the set-uid bit', () => {
  assert.equal(overrideAttributes({ umask: 0o027 })(attributes).mode, 0o104750);
  assert.equal(overrideAttributes({ umask: 0o177777 })(attributes).mode, 0o104000);
});

test('changes nothing without overrides', () => {
  assert.deepEqual(overrideAttributes({})(attributes), attributes);
});
