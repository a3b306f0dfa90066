import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Asks again and again, for half a minute: machines that run tests are busy. Their clocks are set while tests
 * run, too, so the time is that of `performance`.
 */
export async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 30_000; performance.now() < end; await delay(20)) {
    if (await condition()) return;
  }
  assert.fail(`waited in vain until ${what}`);
}
