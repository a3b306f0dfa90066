/** Writes the goodbye table of a directory; see `goodbye.ts` for its layout. */

import { encodeItemHeader, encodeU64 } from './encode-item.ts';
import { goodbyeItemSize } from './goodbye.ts';
import type { Hash64 } from './sip-hash.ts';

export interface GoodbyeMember {
  /** Of the name. */
  readonly hash: Hash64;
  /** Of its FILENAME item. */
  readonly position: number;
  /** From there to its end. */
  readonly size: number;
}

const tailMarker: Hash64 = { high: 0xef5eed5b, low: 0x753e1555 };

/**
 * The whole GOODBYE item.
 * @param position where it will stand.
 * @param entryPosition where the ENTRY item of the directory stands.
 */
export function encodeGoodbyeTable(
  members: readonly GoodbyeMember[],
  position: number,
  entryPosition: number,
): Buffer {
  const sorted = members.toSorted((a, b) => a.hash.high - b.hash.high || a.hash.low - b.hash.low);
  const size = goodbyeItemSize * (sorted.length + 1);
  const header = encodeItemHeader('GOODBYE', size);
  const table = Buffer.alloc(size);
  const writeRow = (row: number, hash: Hash64, distance: number, length: number): void => {
    table.writeUInt32LE(hash.low, row * goodbyeItemSize);
    table.writeUInt32LE(hash.high, row * goodbyeItemSize + 4);
    encodeU64(distance, length).copy(table, row * goodbyeItemSize + 8);
  };
  let next = 0;
  for (const row of rowsInOrder(sorted.length)) {
    const member = sorted[next++];
    if (member !== undefined) writeRow(row, member.hash, position - member.position, member.size);
  }
  writeRow(sorted.length, tailMarker, position - entryPosition, header.length + size);
  return Buffer.concat([header, table]);
}

/** The rows of a complete binary search tree (children of i: 2i+1, 2i+2) by rising hash. */
function* rowsInOrder(count: number, row = 0): Generator<number> {
  if (row >= count) return;
  yield* rowsInOrder(count, 2 * row + 1);
  yield row;
  yield* rowsInOrder(count, 2 * row + 2);
}
