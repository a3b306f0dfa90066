/**
 * A part of something readable as a thing of its own: a file in an archive, a partition of a disk.
 *
 * Classes, like all that is made anew for each opened file: an object literal with a getter takes a hidden class of its
 * own, which V8 keeps, with all that the getter sees, until the next full collection.
 */
import { borrow, type Loan, type ReadAt, type SparseReadAt } from './read-at.ts';

const nothing: Loan = { slices: [], [Symbol.dispose]: () => {} };

/** `size` bytes of `source` from `start` on; they must lie within it. */
export class Range<Source extends ReadAt = ReadAt> implements ReadAt {
  readonly size: number;
  protected readonly source: Source;
  protected readonly start: number;

  constructor(source: Source, start: number, size: number) {
    this.source = source;
    this.start = start;
    this.size = size;
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<readonly Uint8Array[]> {
    const wanted = Math.min(length, this.size - offset);
    return wanted <= 0 ? [] : await this.source.read(this.start + offset, wanted, signal);
  }

  async borrow(offset: number, length: number, signal?: AbortSignal): Promise<Loan> {
    const wanted = Math.min(length, this.size - offset);
    return wanted <= 0 ? nothing : await borrow(this.source, this.start + offset, wanted, signal);
  }
}

/** The same, with the holes of `source`. */
export class SparseRange<Source extends SparseReadAt = SparseReadAt>
  extends Range<Source>
  implements SparseReadAt
{
  nextData(offset: number): number | undefined {
    const { source, start, size } = this;
    const data = offset < size ? source.nextData(start + offset) : undefined;
    return data !== undefined && data < start + size ? data - start : undefined;
  }

  nextHole(offset: number): number {
    const { source, start, size } = this;
    return offset < size ? Math.min(source.nextHole(start + offset), start + size) - start : offset;
  }

  get dataSize(): number {
    let bytes = 0;
    for (let at = this.nextData(0); at !== undefined; ) {
      const hole = this.nextHole(at);
      bytes += hole - at;
      at = this.nextData(hole);
    }
    return bytes;
  }
}
