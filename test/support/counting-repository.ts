/**
 * A repository that counts, so that cost is asserted as a number.
 *
 *   const counting = countingRepository(inner);
 *   … read through counting.repository …
 *   assert.equal(counting.count('readChunk'), 1);
 */
import type { Repository } from '../../src/repository/repository.ts';
import { type RepositoryCall, wrappedRepository } from './wrapped-repository.ts';

export interface CountingRepository {
  readonly repository: Repository;
  /** Every call since the start or the last `reset`, in order. */
  readonly calls: readonly RepositoryCall[];
  /** Calls of one method, on one target where it is given. */
  count(method: RepositoryCall['method'], target?: string): number;
  /** Most calls that ran at once. */
  readonly maxConcurrency: number;
  reset(): void;
}

export function countingRepository(inner: Repository): CountingRepository {
  const calls: RepositoryCall[] = [];
  let running = 0;
  let maxConcurrency = 0;
  const repository = wrappedRepository(inner, async (call, action) => {
    calls.push(call);
    running++;
    maxConcurrency = Math.max(maxConcurrency, running);
    try {
      return await action();
    } finally {
      running--;
    }
  });
  return {
    repository,
    calls,
    count: (method, target) =>
      calls.filter((c) => c.method === method && (target === undefined || c.target === target))
        .length,
    get maxConcurrency() {
      return maxConcurrency;
    },
    reset: () => {
      calls.length = 0;
      maxConcurrency = 0;
    },
  };
}
