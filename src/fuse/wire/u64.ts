/**
 * The protocol's 64-bit fields as numbers, two 32-bit halves each: a BigInt for every field of every request
 * would cost more than the request. Beyond 2^53 precision is lost, but nothing of ours is that large: node
 * ids and handles are handed out here, offsets end at the size of a file, and the kernel counts its requests
 * from 1.
 */

const high = 0x1_0000_0000;

export function readU64(bytes: Buffer, offset: number): number {
  return bytes.readUInt32LE(offset) + bytes.readUInt32LE(offset + 4) * high;
}

/** Also writes negative numbers, as two's complement. */
export function writeU64(bytes: Buffer, offset: number, value: number): void {
  bytes.writeUInt32LE(value >>> 0, offset);
  bytes.writeUInt32LE(Math.floor(value / high) >>> 0, offset + 4);
}
