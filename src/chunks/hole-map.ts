/**
 * Where an archive has chunks of zeros, told from its index alone. Only the lengths that zeros are cut into
 * are looked at: the chunk size and the last chunk of an image, and powers of two in a dynamic index, whose
 * chunker cuts zeros at its maximum.
 */
import type { ChunkIndex } from '../formats/chunk-index.ts';
import type { CryptConfig } from '../formats/crypt-config.ts';
import { FixedIndex } from '../formats/fixed-index.ts';
import { zeroDigest } from './zero-chunks.ts';

export interface HoleMapOptions {
  readonly index: ChunkIndex;
  readonly isEncrypted: boolean;
  /** Without the key of an encrypted archive nothing is known of holes, and none is told. */
  readonly crypt?: CryptConfig | undefined;
}

interface Holes {
  /** Ascending, not touching each other. */
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  readonly bytes: number;
}

export class HoleMap {
  readonly #index: ChunkIndex;
  readonly #crypt: CryptConfig | undefined;
  readonly #isKnown: boolean;
  #found: Holes | undefined;

  constructor(options: HoleMapOptions) {
    this.#index = options.index;
    this.#crypt = options.crypt;
    this.#isKnown = !options.isEncrypted || options.crypt !== undefined;
  }

  /** Whether chunk `i` holds nothing but zeros, as far as its digest can tell. */
  isZero(i: number): boolean {
    if (!this.#isKnown) return false;
    const index = this.#index;
    const length = index.chunkEnd(i) - index.chunkStart(i);
    if (!(index instanceof FixedIndex)) {
      return isPowerOfTwo(length) && this.#hasDigestOfZeros(i, length);
    }
    // Only the last chunk is shorter than the others, and some writers pad it.
    if (this.#hasDigestOfZeros(i, index.chunkSize)) return true;
    return length < index.chunkSize && this.#hasDigestOfZeros(i, length);
  }

  /** Bytes outside of holes. */
  get dataSize(): number {
    return this.#index.size - this.#holes.bytes;
  }

  /** Smallest data offset ≥ `offset`, or undefined where only a hole follows. */
  nextData(offset: number): number | undefined {
    const { starts, ends } = this.#holes;
    const data = Math.max(offset, ends[lastAtMost(starts, offset)] ?? 0);
    return data < this.#index.size ? data : undefined;
  }

  /** Smallest hole offset ≥ `offset`; the end counts as a hole. */
  nextHole(offset: number): number {
    const { starts, ends } = this.#holes;
    const hole = lastAtMost(starts, offset);
    if (offset < (ends[hole] ?? 0)) return offset;
    return Math.max(offset, starts[hole + 1] ?? this.#index.size);
  }

  #hasDigestOfZeros(i: number, length: number): boolean {
    return this.#index.hasDigest(i, zeroDigest(length, this.#crypt));
  }

  /** One pass over the index, when it is first asked for. */
  get #holes(): Holes {
    this.#found ??= this.#find();
    return this.#found;
  }

  #find(): Holes {
    const index = this.#index;
    const starts: number[] = [];
    const ends: number[] = [];
    let bytes = 0;
    for (let i = 0; i < index.chunkCount; i++) {
      if (!this.isZero(i)) continue;
      const start = index.chunkStart(i);
      const end = index.chunkEnd(i);
      if (ends.at(-1) === start) ends.pop();
      else starts.push(start);
      ends.push(end);
      bytes += end - start;
    }
    return { starts, ends, bytes };
  }
}

function isPowerOfTwo(value: number): boolean {
  // Chunks are at most 16 MiB, so 32-bit arithmetic does.
  return (value & (value - 1)) === 0;
}

/** Position of the last element ≤ `value` in ascending `values`, or −1. */
function lastAtMost(values: readonly number[], value: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] ?? 0) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
