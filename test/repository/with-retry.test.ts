import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { PbsfsError } from '../../src/errors.ts';
import type { Repository, SnapshotReader } from '../../src/repository/repository.ts';
import { withRetry } from '../../src/repository/with-retry.ts';
import { countingRepository } from '../support/counting-repository.ts';
import { expectError } from '../support/expect-error.ts';
import { type Faults, faultyRepository } from '../support/faulty-repository.ts';

const snapshot = { namespace: [], type: 'vm', id: '100', time: 1_700_000_000 } as const;
const unreachable = new PbsfsError('unreachable', 'the server is away');

function emptyRepository(): Repository {
  const reader: SnapshotReader = {
    snapshot,
    readFile: async () => Buffer.from('file'),
    readChunk: async () => Buffer.from('chunk'),
    [Symbol.asyncDispose]: async () => {},
  };
  return {
    name: 'fake',
    listNamespaces: async () => [],
    listGroups: async () => [],
    listSnapshots: async () => [],
    describeSnapshot: async () => assert.fail(),
    readNotes: async () => 'notes',
    openSnapshot: async () => reader,
    status: async () => ({ total: 3, used: 2, available: 1 }),
    [Symbol.asyncDispose]: async () => {},
  };
}

/** Fails the first `failures` calls with `error`. */
function failing(failures: number, error: PbsfsError) {
  let left = failures;
  const faults: Faults = {
    before: () => {
      left -= 1;
      if (left >= 0) throw error;
    },
  };
  return countingRepository(faultyRepository(emptyRepository(), faults));
}

const quick = { firstWait: 1, maxWait: 4, giveUpAfter: 1000 };

suite('withRetry', () => {
  test('tries again until a passing failure has passed', async () => {
    for (const code of ['unreachable', 'timeout'] as const) {
      const counting = failing(4, new PbsfsError(code, 'away'));
      const repository = withRetry(counting.repository, quick);
      assert.deepEqual(await repository.status(), { total: 3, used: 2, available: 1 });
      assert.equal(counting.count('status'), 5);
    }
  });

  test('covers every method, and the readers that it hands out', async () => {
    const inner = emptyRepository();
    let failNext = true;
    const faults: Faults = {
      before: () => {
        failNext = !failNext;
        if (!failNext) throw unreachable;
      },
    };
    const counting = countingRepository(faultyRepository(inner, faults));
    const repository = withRetry(counting.repository, quick);
    await repository.listNamespaces([]);
    await repository.listGroups([]);
    await repository.listSnapshots(snapshot);
    await repository.status();
    const reader = await repository.openSnapshot(snapshot);
    assert.equal(String(await reader.readFile('a.blob')), 'file');
    assert.equal(String(await reader.readChunk(Buffer.alloc(32))), 'chunk');
    const methods = counting.calls.map(({ method }) => method);
    for (const method of new Set(methods)) {
      assert.equal(methods.filter((other) => other === method).length, 2, method);
    }
    assert.equal(methods.length, 14);
  });

  test('passes every other failure on at once', async () => {
    const codes = [
      'not-found',
      'stale',
      'corrupt',
      'chunk-missing',
      'access-denied',
      'failed',
    ] as const;
    for (const code of codes) {
      const counting = failing(1, new PbsfsError(code, 'no'));
      await assert.rejects(withRetry(counting.repository, quick).status(), expectError(code));
      assert.equal(counting.count('status'), 1);
    }
  });

  test('gives up after the time that is set, with the failure itself', async () => {
    const counting = failing(Number.POSITIVE_INFINITY, unreachable);
    const repository = withRetry(counting.repository, { ...quick, giveUpAfter: 60 });
    const started = performance.now();
    await assert.rejects(repository.status(), (error) => error === unreachable);
    assert.ok(performance.now() - started < 500);
    assert.ok(counting.count('status') > 3);
  });

  test('waits longer each time, up to the longest wait', async (t) => {
    t.mock.method(Math, 'random', () => 1);
    const times: number[] = [];
    const faults: Faults = {
      before: () => {
        times.push(performance.now());
        throw unreachable;
      },
    };
    const repository = withRetry(faultyRepository(emptyRepository(), faults), {
      firstWait: 10,
      maxWait: 40,
      giveUpAfter: 200,
    });
    await assert.rejects(repository.status());
    const waits = times.slice(1).map((time, i) => time - (times[i] ?? 0));
    for (const [i, least] of [10, 20, 40, 40].entries()) {
      assert.ok((waits[i] ?? 0) >= least - 2, `${waits}`);
    }
  });

  test('stops waiting when the caller gives up or the repository is closed', async () => {
    const slow = { firstWait: 60_000, maxWait: 60_000, giveUpAfter: 600_000 };
    const counting = failing(Number.POSITIVE_INFINITY, unreachable);
    const repository = withRetry(counting.repository, slow);
    const controller = new AbortController();
    const given = repository.status(controller.signal);
    const kept = repository.status();
    setTimeout(() => controller.abort(), 5);
    await assert.rejects(given, expectError('aborted'));
    setTimeout(() => void repository[Symbol.asyncDispose](), 5);
    await assert.rejects(kept, expectError('aborted', /closed/));
  });

  test("takes the caller's own deadline for what it is", async () => {
    const signal = AbortSignal.timeout(20);
    const counting = failing(
      Number.POSITIVE_INFINITY,
      new PbsfsError('timeout', 'the deadline passed'),
    );
    const repository = withRetry(counting.repository, { ...quick, giveUpAfter: 60_000 });
    await assert.rejects(repository.status(signal), expectError('timeout'));
  });
});
