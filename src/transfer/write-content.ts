/** Writes the bytes of a file that is empty yet; blocks of zeros become holes. */
import { ftruncateSync, write, writeSync } from 'node:fs';
import type { OpenFile } from '../tree/node.ts';
import { readData } from './read-steps.ts';

/** Block size of ext4, XFS and Btrfs: a smaller hole saves nothing. */
const blockBytes = 4096;
const zeroBlock = Buffer.alloc(blockBytes);
/** Below this a call costs less than a trip to the thread pool. */
const maxSyncBytes = 64 * 1024;

/**
 * @param onBytes told of progress, holes included.
 * @throws PbsfsError of the source, or an errno error of the target.
 */
export async function writeContent(
  fd: number,
  file: OpenFile,
  signal: AbortSignal,
  onBytes: (bytes: number) => void,
): Promise<void> {
  let told = 0;
  let written = 0;
  for await (using step of readData(file, signal)) {
    let at = step.offset;
    for (const slice of step.slices) {
      for (const [start, end] of dataRuns(slice, at)) {
        await writeFully(fd, slice.subarray(start, end), at + start);
        written = at + end;
      }
      at += slice.length;
    }
    onBytes(at - told);
    told = at;
  }
  if (written < file.size) ftruncateSync(fd, file.size);
  onBytes(file.size - told);
}

/** Runs of blocks that are not zeros. Blocks are those of the file, where the slice starts at `offset`. */
function* dataRuns(slice: Uint8Array, offset: number): Generator<readonly [number, number]> {
  let start = 0;
  for (let at = 0; at < slice.length; ) {
    const end = Math.min(at + blockBytes - ((offset + at) % blockBytes), slice.length);
    if (isZero(slice, at, end)) {
      if (at > start) yield [start, at];
      start = end;
    }
    at = end;
  }
  if (slice.length > start) yield [start, slice.length];
}

function isZero(slice: Uint8Array, start: number, end: number): boolean {
  if (slice[start] !== 0) return false;
  return zeroBlock.compare(slice, start, end, 0, end - start) === 0;
}

async function writeFully(fd: number, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const rest = bytes.subarray(done);
    done +=
      rest.length <= maxSyncBytes
        ? writeSync(fd, rest, 0, rest.length, position + done)
        : await writeAsync(fd, rest, position + done);
  }
}

function writeAsync(fd: number, bytes: Uint8Array, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, 0, bytes.length, position, (error, written) => {
      if (error === null) resolve(written);
      else reject(error);
    });
  });
}
