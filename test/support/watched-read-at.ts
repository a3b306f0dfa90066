/** Wrappers of `ReadAt` for tests: one counts, one has a hole where reads fail as a damaged chunk does. */
import { PbsfsError } from '../../src/errors.ts';
import type { ReadAt } from '../../src/read-at.ts';

export interface CountingReadAt extends ReadAt {
  /** What was asked for since the last `reset`, in order. */
  readonly ranges: readonly { readonly offset: number; readonly length: number }[];
  /** Bytes of all ranges. */
  readonly bytes: number;
  reset(): void;
}

export function countingReadAt(source: ReadAt): CountingReadAt {
  const ranges: { offset: number; length: number }[] = [];
  return {
    size: source.size,
    ranges,
    get bytes() {
      return ranges.reduce((sum, { length }) => sum + length, 0);
    },
    reset: () => {
      ranges.length = 0;
    },
    read: async (offset, length, signal) => {
      ranges.push({ offset, length: Math.min(length, source.size - offset) });
      return await source.read(offset, length, signal);
    },
  };
}

/** Reads that touch `[start, end)` fail with `code`, as those of a chunk do. */
export function damagedReadAt(
  source: ReadAt,
  start: number,
  end: number,
  code: 'corrupt' | 'chunk-missing' | 'unreachable' = 'corrupt',
): ReadAt {
  return {
    size: source.size,
    read: async (offset, length, signal) => {
      if (offset < end && offset + length > start) {
        throw new PbsfsError(code, 'a bad chunk', {
          context: { offset: start, length: end - start },
        });
      }
      return await source.read(offset, length, signal);
    },
  };
}
