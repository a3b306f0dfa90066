import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { PbsfsError } from '../../../src/errors.ts';
import type { SnapshotId } from '../../../src/formats/snapshot-path.ts';
import type { ReaderSession } from '../../../src/repository/pbs/reader-session.ts';
import { SessionPool } from '../../../src/repository/pbs/session-pool.ts';
import { expectError } from '../../support/expect-error.ts';

function snapshotOf(time: number): SnapshotId {
  return { namespace: [], type: 'vm', id: '1', time };
}

class FakeSession {
  readonly time: number;
  isUsable = true;
  onEnd: () => void = () => {};

  constructor(time: number) {
    this.time = time;
  }

  [Symbol.dispose](): void {
    if (!this.isUsable) return;
    this.isUsable = false;
    this.onEnd();
  }
}

function fakePool(maxSessions: number, idleTimeout = 60_000) {
  const opened: FakeSession[] = [];
  let failures = 0;
  const pool = new SessionPool({
    maxSessions,
    idleTimeout,
    open: async ({ time }) => {
      await new Promise(setImmediate);
      if (failures > 0) {
        failures -= 1;
        throw new PbsfsError('unreachable', 'away');
      }
      const session = new FakeSession(time);
      opened.push(session);
      return session as unknown as ReaderSession;
    },
  });
  return {
    pool,
    opened,
    failNext: () => {
      failures = 1;
    },
    openTimes: () => opened.filter(({ isUsable }) => isUsable).map(({ time }) => time),
    use: (time: number) => pool.use(snapshotOf(time), async (session) => session),
  };
}

suite('the pool of sessions', () => {
  test('opens one session per snapshot, however many ask at once', async () => {
    const { pool, opened, use } = fakePool(4);
    using _ = pool;
    const sessions = await Promise.all([use(1), use(1), use(2), use(1)]);
    assert.equal(new Set(sessions).size, 2);
    assert.equal(opened.length, 2);
    await use(1);
    assert.equal(opened.length, 2);
  });

  test('keeps to its bound: the one unused for the longest time goes', async () => {
    const { pool, openTimes, use } = fakePool(2);
    using _ = pool;
    for (const time of [1, 2, 1, 3]) await use(time);
    assert.deepEqual(openTimes(), [1, 3]);
  });

  test('lets a session that leaves finish what it does', async () => {
    const { pool, opened, openTimes, use } = fakePool(1);
    using _ = pool;
    let finish = () => {};
    const busy = pool.use(snapshotOf(1), () => new Promise<void>((resolve) => (finish = resolve)));
    await new Promise((resolve) => setTimeout(resolve, 10));
    await use(2);
    assert.equal(opened[0]?.isUsable, true);
    finish();
    await busy;
    assert.deepEqual(openTimes(), [2]);
  });

  test('closes a session after its idle time, and opens another when it is needed', async () => {
    const { pool, openTimes, opened, use } = fakePool(4, 40);
    using _ = pool;
    await use(1);
    assert.deepEqual(openTimes(), [1]);
    const busy = pool.use(snapshotOf(2), () => new Promise((resolve) => setTimeout(resolve, 150)));
    await new Promise((resolve) => setTimeout(resolve, 120));
    assert.deepEqual(openTimes(), [2], 'a session in use is not idle');
    await busy;
    await use(1);
    assert.equal(opened.length, 3);
  });

  test('replaces a session that ended, and remembers no failure', async () => {
    const { pool, opened, failNext, use } = fakePool(4);
    using _ = pool;
    await use(1);
    opened[0]?.[Symbol.dispose]();
    await use(1);
    assert.equal(opened.length, 2);
    failNext();
    await assert.rejects(use(2), expectError('unreachable'));
    await use(2);
    assert.equal(opened.length, 3);
  });

  test('ends everything when it is closed, also what is still being opened', async () => {
    const { pool, opened, openTimes, use } = fakePool(4);
    await use(1);
    const late = use(2);
    pool[Symbol.dispose]();
    await late.catch(() => {});
    await new Promise(setImmediate);
    assert.equal(opened.length, 2);
    assert.deepEqual(openTimes(), []);
    await assert.rejects(use(1), expectError('aborted'));
  });

  test('lets a caller go who gives up while a session is opened for others', async () => {
    const { pool, opened, use } = fakePool(4);
    using _ = pool;
    const controller = new AbortController();
    const given = pool.use(snapshotOf(1), async () => {}, controller.signal);
    const kept = use(1);
    controller.abort();
    await assert.rejects(given, expectError('aborted'));
    await kept;
    assert.equal(opened.length, 1);
  });
});
