import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PbsfsError } from '../../src/errors.ts';
import type { GroupInfo } from '../../src/repository/repository.ts';
import { withLastListing } from '../../src/repository/with-last-listing.ts';
import { countingRepository } from '../support/counting-repository.ts';
import { expectError } from '../support/expect-error.ts';
import { fakeRepository } from '../support/fake-repository.ts';
import { type Faults, faultyRepository } from '../support/faulty-repository.ts';

const unreachable = new PbsfsError('unreachable', 'the server is away');
const patience = 50;

/** A repository with one group more at every listing, and ways to break it. */
function growing() {
  const groups: GroupInfo[] = [];
  const faults: Faults = {};
  const inner = {
    ...fakeRepository(),
    listGroups: async () => {
      const group = { namespace: [], type: 'vm', id: String(groups.length) } as const;
      groups.push({ group, owner: undefined, comment: undefined });
      return [...groups];
    },
  };
  const counting = countingRepository(faultyRepository(inner, faults));
  const log: string[] = [];
  const logger = (level: string, message: string) => log.push(`${level} ${message}`);
  const repository = withLastListing(counting.repository, { logger, patience });
  const count = async (): Promise<number> => (await repository.listGroups([])).length;
  return { faults, counting, log, repository, count };
}

test('while the repository answers, every listing is a new one', async () => {
  const { count, log } = growing();
  assert.equal(await count(), 1);
  assert.equal(await count(), 2);
  assert.deepEqual(log, []);
});

test('while it is away, the last listing is given, and told once', async () => {
  const { count, faults, log } = growing();
  await count();
  await count();
  faults.before = () => {
    throw unreachable;
  };
  assert.equal(await count(), 2);
  assert.equal(await count(), 2);
  assert.equal(log.length, 1);
  assert.match(log[0] ?? '', /^warn fake does not answer/);
});

test('when it comes back, that shows at once or at the next look', async () => {
  const { count, faults, log } = growing();
  await count();
  faults.before = () => {
    throw unreachable;
  };
  await count();
  faults.before = undefined;
  await count();
  await new Promise((resolve) => setImmediate(resolve));
  const known = await count();
  assert.ok(known >= 2, `${known} groups`);
  assert.match(log[1] ?? '', /^info fake answers again/);
});

test('silence is waited for once, and asked in the background from then on', async () => {
  const { count, faults, counting } = growing();
  await count();
  let answer = (): void => {};
  faults.before = () => new Promise((resolve) => (answer = resolve));
  const startedAt = performance.now();
  assert.equal(await count(), 1);
  assert.ok(performance.now() - startedAt >= patience - 1);
  const againAt = performance.now();
  for (let i = 0; i < 10; i++) assert.equal(await count(), 1);
  assert.ok(performance.now() - againAt < patience);
  assert.equal(counting.count('listGroups'), 2);
  answer();
  faults.before = undefined;
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(await count(), 3);
});

test('what was never listed fails as it does without', async () => {
  const { faults, repository, count } = growing();
  await count();
  faults.before = () => {
    throw unreachable;
  };
  await assert.rejects(repository.listGroups(['other']), expectError('unreachable'));
  await assert.rejects(repository.listNamespaces([]), expectError('unreachable'));
});

test('a refusal is an answer: nothing old is shown after it', async () => {
  const { faults, count } = growing();
  await count();
  for (const code of ['not-found', 'access-denied'] as const) {
    faults.before = () => {
      throw new PbsfsError(code, 'no');
    };
    await assert.rejects(count(), expectError(code));
  }
  faults.before = () => {
    throw unreachable;
  };
  await assert.rejects(count(), expectError('unreachable'));
});

test('who gives up is let go, and the others get their listing', async () => {
  const { faults, repository } = growing();
  let answer = (): void => {};
  faults.before = () => new Promise((resolve) => (answer = resolve));
  const abort = new AbortController();
  const left = repository.listGroups([], abort.signal);
  const stays = repository.listGroups([]);
  abort.abort();
  await assert.rejects(left, expectError('aborted'));
  answer();
  assert.equal((await stays).length, 1);
});
