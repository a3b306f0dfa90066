import assert from 'node:assert/strict';
import { test } from 'node:test';
import { childInode, positionInode, rootInode } from '../../src/tree/inode.ts';

test('a hundred thousand names below some parents have inodes of their own', () => {
  const seen = new Set<number>([rootInode]);
  for (let parent = 1; parent <= 10; parent++) {
    for (let i = 0; i < 10_000; i++) seen.add(childInode(parent, Buffer.from(String(i))));
  }
  assert.equal(seen.size, 100_001);
});

test('two hundred thousand positions of some archives have inodes of their own', () => {
  const seen = new Set<number>();
  for (let archive = 0; archive < 4; archive++) {
    const base = childInode(rootInode, Buffer.from(`archive-${archive}`));
    for (let i = 0; i < 50_000; i++) seen.add(positionInode(base, i * 88 + archive));
  }
  assert.equal(seen.size, 200_000);
});

test('inodes are exact as a number and never 0 or the root', () => {
  for (let i = 0; i < 100_000; i++) {
    const inode = childInode(i, Buffer.from([i & 255, i >> 8]));
    assert.ok(Number.isSafeInteger(inode) && inode > rootInode);
  }
});

test('inodes are those of earlier versions: a remount after an update keeps them', () => {
  const vm = childInode(rootInode, Buffer.from('vm'));
  const pinned = [vm, childInode(vm, Buffer.from([0xff, 0x00])), positionInode(vm, 2 ** 40 + 5)];
  assert.deepEqual(pinned, [8904354850965879, 5667372091174120, 792642562697960]);
});
