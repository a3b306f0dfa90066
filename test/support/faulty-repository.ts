/**
 * A repository that fails on request.
 *
 *   const faults: Faults = {};
 *   const repository = faultyRepository(inner, faults);
 *   faults.before = async ({ method }) => {
 *     if (method === 'readChunk') throw new PbsfsError('unreachable', 'server is gone');
 *   };
 *   faults.damage = (raw, { target }) => (target === digest ? raw.subarray(0, 20) : raw);
 */
import type { Repository } from '../../src/repository/repository.ts';
import { type RepositoryCall, wrappedRepository } from './wrapped-repository.ts';

export interface Faults {
  /** Runs before each call: it may wait, and what it throws, the call throws. */
  before?: ((call: RepositoryCall) => void | Promise<void>) | undefined;
  /** Changes the bytes of a file or chunk that was read. */
  damage?: ((raw: Buffer, call: RepositoryCall) => Buffer) | undefined;
}

export function faultyRepository(inner: Repository, faults: Faults): Repository {
  return wrappedRepository(inner, async (call, action) => {
    await faults.before?.(call);
    const result = await action();
    const damaged =
      Buffer.isBuffer(result) && faults.damage !== undefined ? faults.damage(result, call) : result;
    return damaged as typeof result;
  });
}
