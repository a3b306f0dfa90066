/**
 * A `ReadAt` that does not ask twice for what was damaged. A chunk that fails is fetched anew by each read, and
 * a pass or a listing would do so for every entry in it.
 */
import type { PbsfsError } from '../../errors.ts';
import { borrow, type ReadAt } from '../../read-at.ts';
import { isDamage } from './damage.ts';

interface DamagedRange {
  readonly start: number;
  readonly end: number;
  readonly error: PbsfsError;
}

/** Wraps `source` for one operation: the next may find the chunk mended. */
export function rememberDamage(source: ReadAt): ReadAt {
  const ranges: DamagedRange[] = [];
  const attempt = async <T>(offset: number, length: number, read: () => Promise<T>): Promise<T> => {
    const known = ranges.find(({ start, end }) => offset < end && offset + length > start);
    if (known !== undefined) throw known.error;
    try {
      return await read();
    } catch (error) {
      if (!isDamage(error)) throw error;
      const { offset: start, length: size } = error.context;
      if (start !== undefined && size !== undefined) {
        ranges.push({ start, end: start + size, error });
      }
      throw error;
    }
  };
  return {
    size: source.size,
    read: (offset, length, signal) =>
      attempt(offset, length, () => source.read(offset, length, signal)),
    borrow: (offset, length, signal) =>
      attempt(offset, length, () => borrow(source, offset, length, signal)),
  };
}
