/** From a byte range of an archive to slices of the chunks that hold it. */
import { PbsfsError } from '../errors.ts';
import type { ChunkIndex } from '../formats/chunk-index.ts';

/** @throws PbsfsError `usage` for what is no offset. */
export function checkOffset(value: number, what: string): void {
  if (Number.isSafeInteger(value) && value >= 0) return;
  throw new PbsfsError('usage', `${what} ${value} is not a whole number from 0 on`);
}

/**
 * The bytes `[offset, min(offset + length, size))` as slices, without a copy. All chunks are asked for at
 * once.
 * @throws PbsfsError `usage` for a bad range, and whatever `chunk` throws.
 */
export async function readChunkRange(
  index: ChunkIndex,
  offset: number,
  length: number,
  chunk: (i: number) => Promise<Buffer>,
): Promise<readonly Uint8Array[]> {
  checkOffset(offset, 'offset');
  checkOffset(length, 'length');
  const end = Math.min(offset + length, index.size);
  if (offset >= end) return [];
  const first = index.chunkAt(offset);
  const last = index.chunkAt(end - 1);
  const wanted = Array.from({ length: last - first + 1 }, (_, i) => chunk(first + i));
  const chunks = await Promise.all(wanted);
  return chunks.map((bytes, i) => {
    const start = index.chunkStart(first + i);
    return bytes.subarray(Math.max(offset - start, 0), end - start);
  });
}
