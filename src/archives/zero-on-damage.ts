/**
 * Replaces ranges that cannot be read by zeros: the opt-in `--on-error zero`, for saving what is left of a
 * damaged image. Every range that is replaced is told, so that nobody takes the result for whole.
 */
import { isPbsfsError, type PbsfsError } from '../errors.ts';
import { borrow, type SparseReadAt } from '../read-at.ts';

/** Called once for each read that had a range replaced. */
export type OnDamage = (error: PbsfsError) => void;

interface Range {
  readonly start: number;
  readonly end: number;
}

/** The range that a failed read names, where it is damage and not a passing fault. */
function damagedRange(error: unknown): Range | undefined {
  if (!isPbsfsError(error, 'corrupt', 'chunk-missing')) return undefined;
  const { offset, length } = error.context;
  if (offset === undefined || length === undefined || length <= 0) return undefined;
  return { start: offset, end: offset + length };
}

export function withZeroOnDamage(source: SparseReadAt, onDamage: OnDamage): SparseReadAt {
  const salvage = async (
    error: unknown,
    offset: number,
    length: number,
    signal?: AbortSignal,
  ): Promise<readonly Uint8Array[]> => {
    const bad = damagedRange(error);
    const end = Math.min(offset + length, source.size);
    if (bad === undefined || bad.start >= end || bad.end <= offset) throw error;
    onDamage(error as PbsfsError);
    const from = Math.max(bad.start, offset);
    const to = Math.min(bad.end, end);
    const before = from > offset ? await read(offset, from - offset, signal) : [];
    const after = to < end ? await read(to, end - to, signal) : [];
    return [...before, Buffer.alloc(to - from), ...after];
  };
  const read: SparseReadAt['read'] = async (offset, length, signal) => {
    try {
      return await source.read(offset, length, signal);
    } catch (error) {
      return await salvage(error, offset, length, signal);
    }
  };
  return {
    size: source.size,
    get dataSize() {
      return source.dataSize;
    },
    read,
    borrow: async (offset, length, signal) => {
      try {
        return await borrow(source, offset, length, signal);
      } catch (error) {
        const slices = await salvage(error, offset, length, signal);
        return { slices, [Symbol.dispose]: () => {} };
      }
    },
    nextData: (offset) => source.nextData(offset),
    nextHole: (offset) => source.nextHole(offset),
  };
}
