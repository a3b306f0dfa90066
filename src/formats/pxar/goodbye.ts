/**
 * Goodbye table: the last item of each directory, with which a name is found without reading what is before
 * it. Little-endian.
 *
 *    0      16  header of the GOODBYE item
 *   16+24i   8  hash of the name of member i
 *            8  distance back from the start of this item to the member's FILENAME item
 *            8  size of the member: not used here, split archives count file contents in
 *   end−24   8  marker, in place of a hash
 *            8  distance back to the ENTRY item of the directory: not used, it is known
 *            8  size of this item
 *
 * The members are sorted by hash and laid out as a complete binary search tree: the children of i are 2i+1
 * and 2i+2. Source: `pxar` crate, `format/mod.rs` (`GoodbyeItem`), `binary_tree_array.rs`.
 */
import { PbsfsError } from '../../errors.ts';
import { readU64 } from '../bytes.ts';
import { itemHeaderSize, itemNameAt } from './item.ts';
import type { Hash64 } from './sip-hash.ts';

/** Bytes of one row, the tail included. */
export const goodbyeItemSize = 24;
const tailMarker: Hash64 = { high: 0xef5eed5b, low: 0x753e1555 };
/**
 * Members of one directory: four times what the original client holds at once by default
 * (`ENCODER_MAX_ENTRIES`, 1,048,576), a table of 96 MiB.
 */
export const maxMembers = 4 * 1024 * 1024;
const maxTableSize = itemHeaderSize + goodbyeItemSize * (maxMembers + 1);

/**
 * Size of the whole GOODBYE item whose tail is the 24 bytes at `offset`.
 * @throws PbsfsError `corrupt` where there is no tail, or its size is none that a table can have.
 */
export function decodeGoodbyeTail(bytes: Buffer, offset: number): number {
  if (
    bytes.readUInt32LE(offset) !== tailMarker.low ||
    bytes.readUInt32LE(offset + 4) !== tailMarker.high
  ) {
    throw new PbsfsError('corrupt', 'the directory does not end with a goodbye table');
  }
  const size = readU64(bytes, offset + 16, 'size of goodbye table');
  const isWhole = size > itemHeaderSize && (size - itemHeaderSize) % goodbyeItemSize === 0;
  if (!isWhole || size > maxTableSize) {
    throw new PbsfsError('corrupt', `a goodbye table cannot have ${size} bytes`);
  }
  return size;
}

export class GoodbyeTable {
  /** Where the GOODBYE item starts: one past the last member. */
  readonly position: number;
  /** Positions of the FILENAME items of all members, ascending: the order in which they were written. */
  readonly positions: Float64Array;
  /** False where a writer broke the search order: `find` then looks at every row. */
  readonly isOrdered: boolean;
  readonly #rows: Buffer;

  /**
   * @param bytes the whole item.
   * @param position where it starts.
   * @param membersStart where the directory's first member starts.
   * @throws PbsfsError `corrupt` where rows point out of the directory, or to one member twice.
   */
  constructor(bytes: Buffer, position: number, membersStart: number) {
    if (itemNameAt(bytes, 0) !== 'GOODBYE' || readU64(bytes, 8, 'item size') !== bytes.length) {
      throw new PbsfsError('corrupt', 'a goodbye table does not start where its tail says');
    }
    this.position = position;
    // In memory of its own: a table is kept for long, and would keep what it shares memory with.
    this.#rows = Buffer.from(
      new Uint8Array(bytes.subarray(itemHeaderSize, -goodbyeItemSize)).buffer,
    );
    const length = this.#rows.length / goodbyeItemSize;
    this.positions = Float64Array.from({ length }, (_, i) => this.#memberPosition(i)).sort();
    const wrong = this.positions.findIndex(
      (member, i) =>
        member < membersStart || member >= position || member === this.positions[i + 1],
    );
    if (wrong >= 0) {
      const where = `position ${this.positions[wrong]} in a directory of ${membersStart}…${position}`;
      throw new PbsfsError('corrupt', `a goodbye table has a wrong or repeated ${where}`);
    }
    this.isOrdered = this.#checkOrder();
  }

  /** Members. */
  get length(): number {
    return this.positions.length;
  }

  /** Bytes held. */
  get byteLength(): number {
    return this.#rows.length + this.positions.byteLength;
  }

  /** Where the member at `position` ends: at the next one, or at the table. */
  memberEnd(position: number): number {
    let low = 0;
    let high = this.positions.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.positions[middle] ?? 0) > position) high = middle;
      else low = middle + 1;
    }
    return this.positions[low] ?? this.position;
  }

  /** Positions of all members whose name has this hash, ascending: more than one where hashes collide. */
  find(hash: Hash64): number[] {
    const found: number[] = [];
    if (this.isOrdered) this.#search(0, hash, found);
    else {
      for (let i = 0; i < this.length; i++) {
        if (this.#compare(i, hash) === 0) found.push(this.#memberPosition(i));
      }
    }
    return found.sort((a, b) => a - b);
  }

  #memberPosition(i: number): number {
    return (
      this.position - readU64(this.#rows, i * goodbyeItemSize + 8, 'distance in goodbye table')
    );
  }

  /** Below, at or above zero as the hash in row `i` is less than, equal to or greater than `hash`. */
  #compare(i: number, hash: Hash64): number {
    const at = i * goodbyeItemSize;
    const high = this.#rows.readUInt32LE(at + 4) - hash.high;
    return high === 0 ? this.#rows.readUInt32LE(at) - hash.low : high;
  }

  /** Equal hashes may lie on both sides, and are all found. */
  #search(start: number, hash: Hash64, found: number[]): void {
    let i = start;
    while (i < this.length) {
      const order = this.#compare(i, hash);
      if (order === 0) {
        found.push(this.#memberPosition(i));
        this.#search(2 * i + 1, hash, found);
      }
      i = order > 0 ? 2 * i + 1 : 2 * i + 2;
    }
  }

  /** Walks the tree in order: its hashes must not fall. As deep as the tree, 22 for the longest table. */
  #checkOrder(): boolean {
    let previous: Hash64 = { high: 0, low: 0 };
    const visit = (i: number): boolean => {
      if (i >= this.length) return true;
      if (!visit(2 * i + 1) || this.#compare(i, previous) < 0) return false;
      const at = i * goodbyeItemSize;
      previous = { high: this.#rows.readUInt32LE(at + 4), low: this.#rows.readUInt32LE(at) };
      return visit(2 * i + 2);
    };
    return visit(0);
  }
}
