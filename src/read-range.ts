/** A part of something readable as a thing of its own: a file in an archive, a partition of a disk. */
import { borrow, type Loan, type ReadAt, type SparseReadAt } from './read-at.ts';

const nothing: Loan = { slices: [], [Symbol.dispose]: () => {} };

/** `size` bytes of `source` from `start` on; they must lie within it. */
export function readRange(source: ReadAt, start: number, size: number): ReadAt {
  return {
    size,
    read: async (offset, length, signal) => {
      const wanted = Math.min(length, size - offset);
      return wanted <= 0 ? [] : await source.read(start + offset, wanted, signal);
    },
    borrow: async (offset, length, signal) => {
      const wanted = Math.min(length, size - offset);
      return wanted <= 0 ? nothing : await borrow(source, start + offset, wanted, signal);
    },
  };
}

/** The same, with the holes of `source`. */
export function sparseRange(source: SparseReadAt, start: number, size: number): SparseReadAt {
  const end = start + size;
  const nextData = (offset: number): number | undefined => {
    const data = offset < size ? source.nextData(start + offset) : undefined;
    return data !== undefined && data < end ? data - start : undefined;
  };
  const nextHole = (offset: number): number =>
    offset < size ? Math.min(source.nextHole(start + offset), end) - start : offset;
  return {
    ...readRange(source, start, size),
    nextData,
    nextHole,
    get dataSize() {
      let bytes = 0;
      for (let at = nextData(0); at !== undefined; ) {
        const hole = nextHole(at);
        bytes += hole - at;
        at = nextData(hole);
      }
      return bytes;
    },
  };
}
