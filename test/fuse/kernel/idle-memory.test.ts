import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { releaseIdleMemory } from '../../../src/fuse/kernel/idle-memory.ts';
import type { Libc } from '../../../src/fuse/kernel/libc.ts';

function countingLibc(): { libc: Libc; trims: () => number } {
  let trims = 0;
  const unused = () => assert.fail('not asked for');
  return {
    libc: {
      socketPair: unused,
      receiveDescriptor: unused,
      watch: unused,
      trimMemory: () => trims++,
      exit: unused,
    },
    trims: () => trims,
  };
}

const idleTime = 150;

test('memory is given back once for each time that a mount falls idle', async () => {
  const { libc, trims } = countingLibc();
  using idle = releaseIdleMemory(libc, () => false, idleTime);
  for (let i = 0; i < 10; i++) {
    await sleep(idleTime / 10);
    idle.touch();
  }
  assert.equal(trims(), 0);
  await sleep(3 * idleTime);
  assert.equal(trims(), 1);
  idle.touch();
  await sleep(3 * idleTime);
  assert.equal(trims(), 2);
});

test('nothing is given back while a file is open, or after the end', async () => {
  const { libc, trims } = countingLibc();
  let isInUse = true;
  const idle = releaseIdleMemory(libc, () => isInUse, idleTime);
  await sleep(2 * idleTime);
  isInUse = false;
  idle.touch();
  idle[Symbol.dispose]();
  await sleep(2 * idleTime);
  assert.equal(trims(), 0);
});
