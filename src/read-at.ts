/**
 * `ReadAt`, the port that every byte of an archive goes through: something of known size that is read at
 * offsets, by any number of readers at once. Disk images, payload streams, partitions and whole blobs are
 * all one of these, so each layer can be stacked on any other.
 */
import { PbsfsError } from './errors.ts';

export interface ReadAt {
  /** Bytes in all. */
  readonly size: number;
  /**
   * The bytes `[offset, min(offset + length, size))` as one or more slices in order. Short only at the end,
   * never zero-filled; at or past the end the list is empty. The slices may be views of shared, cached
   * memory: never write into them.
   *
   * @throws PbsfsError `corrupt`, `chunk-missing`, `key-missing`, `unreachable`, `timeout`, `aborted`, …
   */
  read(offset: number, length: number, signal?: AbortSignal): Promise<readonly Uint8Array[]>;
  /** The same for one who uses the bytes at once and gives them back. Use the function `borrow`. */
  borrow?(offset: number, length: number, signal?: AbortSignal): Promise<Loan>;
}

/** Bytes that must not be looked at any more once this is disposed: their memory may be freed then. */
export interface Loan extends Disposable {
  readonly slices: readonly Uint8Array[];
}

/**
 * Reads for one who is soon done with the bytes, where the source lends them: what is given back needs no
 * garbage collection.
 */
export function borrow(
  source: ReadAt,
  offset: number,
  length: number,
  signal?: AbortSignal,
): Promise<Loan> {
  if (source.borrow !== undefined) return source.borrow(offset, length, signal);
  return source
    .read(offset, length, signal)
    .then((slices) => ({ slices, [Symbol.dispose]: () => {} }));
}

/** A file opened for reading, with the map of its empty regions. */
export interface SparseReadAt extends ReadAt {
  /** Smallest data offset ≥ `offset`, or undefined where only a hole follows. */
  nextData(offset: number): number | undefined;
  /** Smallest hole offset ≥ `offset`; the end of the file counts as a hole. */
  nextHole(offset: number): number;
  /** Bytes that are not in holes. */
  readonly dataSize: number;
}

/** The same range as one buffer; copies only where it spans several slices. */
export async function readBytes(
  source: ReadAt,
  offset: number,
  length: number,
  signal?: AbortSignal,
): Promise<Buffer> {
  const slices = await source.read(offset, length, signal);
  const [first] = slices;
  if (first !== undefined && slices.length === 1) {
    return Buffer.from(first.buffer, first.byteOffset, first.byteLength);
  }
  return Buffer.concat(slices);
}

/**
 * Exactly `length` bytes, copied: what is read so is small, and a view would keep a whole chunk in memory.
 * @throws PbsfsError `corrupt` where the source ends before.
 */
export async function readExactly(
  source: ReadAt,
  offset: number,
  length: number,
  signal?: AbortSignal,
): Promise<Buffer> {
  using loan = await borrow(source, offset, length, signal);
  const bytes = Buffer.concat(loan.slices);
  if (bytes.length !== length) {
    throw new PbsfsError('corrupt', `ends after ${bytes.length} of ${length} bytes`, {
      context: { offset, length },
    });
  }
  return bytes;
}

/** A `ReadAt` over bytes in memory. */
export function readAtBuffer(bytes: Uint8Array): ReadAt {
  return {
    size: bytes.length,
    read: async (offset, length) => {
      const slice = bytes.subarray(offset, offset + length);
      return slice.length === 0 ? [] : [slice];
    },
  };
}
