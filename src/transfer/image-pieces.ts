/** An image cut into what a restore does at a time: whole chunks of data, and ranges of zeros between them. */
import type { OpenFile } from '../tree/node.ts';

export interface ImagePiece {
  readonly kind: 'data' | 'zeros';
  readonly start: number;
  readonly end: number;
}

/** The chunk size of images: where a file does not tell its chunks, they are most likely these. */
const defaultStep = 4 * 1024 * 1024;
/** Zeros are written in steps of this, which makes for a progress that moves. */
const zeroStep = 1024 * 1024 * 1024;

/** All of the file, in order. */
export function* imagePieces(file: OpenFile): Generator<ImagePiece> {
  for (let at = 0; at < file.size; ) {
    const data = file.nextData(at) ?? file.size;
    for (; at < data; at = Math.min(at + zeroStep, data)) {
      yield { kind: 'zeros', start: at, end: Math.min(at + zeroStep, data) };
    }
    const hole = at < file.size ? file.nextHole(at) : at;
    while (at < hole) {
      const end = Math.min(stepEnd(file, at), hole);
      yield { kind: 'data', start: at, end };
      at = end;
    }
  }
}

function stepEnd({ chunks }: OpenFile, offset: number): number {
  if (chunks === undefined) return (Math.floor(offset / defaultStep) + 1) * defaultStep;
  return chunks.index.chunkEnd(chunks.index.chunkAt(offset));
}
