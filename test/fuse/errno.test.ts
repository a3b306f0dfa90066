import assert from 'node:assert/strict';
import { constants } from 'node:os';
import { test } from 'node:test';
import { errno, errnoFor } from '../../src/fuse/errno.ts';

test('numbers errors as this Linux does', { skip: process.platform !== 'linux' }, () => {
  const known = new Map<string, number>(Object.entries(constants.errno));
  // Node does not name these two; errno(3) of Linux does.
  known.set('ENOKEY', 126).set('EKEYREJECTED', 129);
  for (const [name, number] of Object.entries(errno)) assert.equal(number, known.get(name), name);
});

test('never ends a listing with what readdir takes for its end', () => {
  assert.equal(errnoFor('lookup', 'not-found'), 'ENOENT');
  assert.equal(errnoFor('readdir', 'not-found'), 'ESTALE');
  assert.equal(errnoFor('readdir', 'corrupt'), 'EIO');
});
