import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { catchEndSignals } from '../../src/cli/end-signals.ts';

async function hasCome(signal: Promise<void>): Promise<boolean> {
  const nothing = delay(50, false);
  return await Promise.race([signal.then(() => true), nothing]);
}

for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  test(`${name} is caught instead of ending the process`, async () => {
    using signals = catchEndSignals();
    assert.equal(await hasCome(signals.first), false);
    process.kill(process.pid, name);
    assert.equal(await hasCome(signals.first), true);
  });
}

test('one key press that arrives twice counts once, a later one is the second', async () => {
  using signals = catchEndSignals();
  process.kill(process.pid, 'SIGINT');
  await delay(10);
  process.kill(process.pid, 'SIGINT');
  assert.equal(await hasCome(signals.second), false);
  await delay(300);
  process.kill(process.pid, 'SIGINT');
  assert.equal(await hasCome(signals.second), true);
});

test('nothing is caught any more after it is disposed', () => {
  const before = process.listenerCount('SIGINT');
  catchEndSignals()[Symbol.dispose]();
  assert.equal(process.listenerCount('SIGINT'), before);
});
