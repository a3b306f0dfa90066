/** Writes single items; see `item.ts` for their layout. */
import { PbsfsError } from '../../errors.ts';
import { type ItemName, itemHeaderSize, itemTypes } from './item.ts';

/** Header of an item whose content has `contentSize` bytes. @throws PbsfsError `unsupported` */
export function encodeItemHeader(name: ItemName, contentSize: number): Buffer {
  const { high, low, min, max } = itemTypes[name];
  if (contentSize < min || contentSize > max) {
    const what = `${name} item of ${contentSize} bytes`;
    throw new PbsfsError('unsupported', `a pxar archive cannot hold a ${what}, only ${min}…${max}`);
  }
  const header = Buffer.alloc(itemHeaderSize);
  header.writeUInt32LE(low, 0);
  header.writeUInt32LE(high, 4);
  header.writeBigUInt64LE(BigInt(contentSize + itemHeaderSize), 8);
  return header;
}

/** @throws PbsfsError `unsupported` where its content is too long. */
export function encodeItem(name: ItemName, ...content: readonly Uint8Array[]): Buffer {
  const size = content.reduce((sum, { length }) => sum + length, 0);
  return Buffer.concat([encodeItemHeader(name, size), ...content]);
}

/** Little-endian, 8 bytes each. */
export function encodeU64(...values: readonly (number | bigint)[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  for (const [i, value] of values.entries()) bytes.writeBigUInt64LE(BigInt(value), 8 * i);
  return bytes;
}
