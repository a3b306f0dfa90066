import assert from 'node:assert/strict';
import { test } from 'node:test';
import { selectDriver } from '../../src/fuse/select-driver.ts';
import { needs } from '../support/requirements.ts';

test('takes the kernel driver where it can', { skip: needs('fuse', 'root') }, async () => {
  assert.equal((await selectDriver('auto')).name, 'kernel');
  assert.equal((await selectDriver('kernel')).name, 'kernel');
});

test('takes fuse-native when asked', { skip: needs('fuse', 'root', 'fuse-native') }, async () => {
  assert.equal((await selectDriver('fuse-native')).name, 'fuse-native');
});
