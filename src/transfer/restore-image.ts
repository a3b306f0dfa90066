/**
 * Restores an image, or any other file that is one large run of bytes: several chunks on their way at once, each
 * written where it belongs as soon as it is there; in order where the target is a pipe.
 */
import { setMaxListeners } from 'node:events';
import { throwIfAborted } from '../abort.ts';
import { zeroBytes } from '../chunks/zero-chunks.ts';
import { isPbsfsError, type PbsfsError, toPbsfsError } from '../errors.ts';
import { borrow, type Loan } from '../read-at.ts';
import { Semaphore } from '../semaphore.ts';
import type { OpenFile } from '../tree/node.ts';
import { type ImagePiece, imagePieces } from './image-pieces.ts';
import type { ImageTarget, PositionedTarget, SequentialTarget } from './image-target.ts';

export interface RestoreImageOptions {
  /** Chunks on their way at once; for a pipe also those that wait for their turn. */
  readonly concurrency: number;
  /** Bounds the pieces on their way of all images that are restored to files at once. */
  readonly budget?: Semaphore;
  /** Keep what the target already holds, where the file can tell by its digests. */
  readonly resume?: boolean;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: ImageProgress) => void;
}

export interface ImageProgress {
  /** Bytes that are done, of all kinds. */
  readonly bytes: number;
  readonly totalBytes: number;
  /** Bytes that are in holes. */
  readonly zeroBytes: number;
  /** Bytes that the target held already. */
  readonly keptBytes: number;
}

export interface RestoredImage extends ImageProgress {
  readonly seconds: number;
  /** Ranges that could not be read; zeros stand there. Empty for a pipe, which ends at the first. */
  readonly damage: readonly PbsfsError[];
}

/**
 * Restores all of `file`. What was written has reached the disk when this returns.
 * @throws PbsfsError of the target (`failed` where it is full), or of the source: for a file or device anything
 * but damage, for a pipe that too.
 */
export async function restoreImage(
  file: OpenFile,
  target: ImageTarget,
  options: RestoreImageOptions,
): Promise<RestoredImage> {
  const started = performance.now();
  const restore = new ImageRestore(file, options);
  if (target.kind === 'positioned') {
    await restore.toPositions(target);
    await target.sync();
  } else {
    await restore.inOrder(target);
  }
  const seconds = (performance.now() - started) / 1000;
  return { ...restore.progress(), seconds, damage: restore.damage };
}

/** The last line of a restore; `MB` are 2^20 bytes, as in the line of the same form that PBS prints. */
export function formatRestoredImage({ bytes, seconds }: RestoredImage): string {
  const speed = bytes / 2 ** 20 / Math.max(seconds, Number.EPSILON);
  return `restore image complete (bytes=${bytes}, duration=${seconds.toFixed(2)}s, speed=${speed.toFixed(2)}MB/s)`;
}

interface WaitingPiece {
  readonly piece: ImagePiece;
  /** Absent for zeros. */
  readonly loan: Promise<Loan> | undefined;
}

/** Zeros written to a pipe at once. */
const zeroStep = 4 * 1024 * 1024;

class ImageRestore {
  readonly damage: PbsfsError[] = [];
  readonly #file: OpenFile;
  readonly #options: RestoreImageOptions;
  /** Fires when one piece failed, so that the others stop. */
  readonly #failed = new AbortController();
  readonly #signal: AbortSignal;
  #bytes = 0;
  #zeroBytes = 0;
  #keptBytes = 0;

  constructor(file: OpenFile, options: RestoreImageOptions) {
    this.#file = file;
    this.#options = options;
    const signals = [options.signal, this.#failed.signal].filter((signal) => signal !== undefined);
    this.#signal = AbortSignal.any(signals);
    // One listener for each piece on its way.
    setMaxListeners(0, this.#signal);
  }

  progress(): ImageProgress {
    return {
      bytes: this.#bytes,
      totalBytes: this.#file.size,
      zeroBytes: this.#zeroBytes,
      keptBytes: this.#keptBytes,
    };
  }

  /** As many loops as pieces may be on their way, all taking from one list. */
  async toPositions(target: PositionedTarget): Promise<void> {
    const pieces = imagePieces(this.#file);
    const { concurrency, budget = new Semaphore(concurrency) } = this.#options;
    const loop = async (): Promise<void> => {
      // A loop that fails ends the list for the others too.
      for (const piece of pieces) await budget.run(() => this.#toPosition(piece, target));
    };
    const loops = Array.from({ length: concurrency }, async () => {
      try {
        await loop();
      } catch (error) {
        this.#failed.abort(toPbsfsError(error));
        throw error;
      }
    });
    // Nothing may be written any more when the caller learns of a failure.
    await Promise.allSettled(loops);
    await Promise.all(loops);
  }

  /** Pieces are fetched side by side and wait for their turn; zeros need no fetch and no memory. */
  async inOrder(target: SequentialTarget): Promise<void> {
    const waiting: WaitingPiece[] = [];
    let fetched = 0;
    const writeFirst = async (): Promise<void> => {
      const first = waiting.shift();
      if (first === undefined) return;
      if (first.piece.kind === 'data') fetched--;
      await this.#writeInOrder(first, target);
    };
    try {
      for (const piece of imagePieces(this.#file)) {
        const loan = piece.kind === 'data' ? this.#read(piece) : undefined;
        // Awaited in its turn; a failure before that is not unhandled.
        loan?.catch(() => {});
        waiting.push({ piece, loan });
        if (piece.kind === 'data') fetched++;
        while (fetched >= this.#options.concurrency) await writeFirst();
      }
      while (waiting.length > 0) await writeFirst();
    } catch (error) {
      this.#failed.abort(toPbsfsError(error));
      throw error;
    }
  }

  async #toPosition(piece: ImagePiece, target: PositionedTarget): Promise<void> {
    throwIfAborted(this.#signal);
    const { start, end } = piece;
    if (piece.kind === 'zeros') {
      await target.zero(start, end);
    } else if (await this.#isKept(piece, target)) {
      this.#keptBytes += end - start;
    } else {
      await this.#fetchTo(piece, target);
    }
    this.#count(piece);
  }

  async #fetchTo(piece: ImagePiece, target: PositionedTarget): Promise<void> {
    try {
      using loan = await this.#read(piece);
      let at = piece.start;
      for (const slice of loan.slices) {
        await target.write(slice, at);
        at += slice.length;
      }
    } catch (error) {
      if (!isPbsfsError(error, 'corrupt', 'chunk-missing')) throw error;
      this.damage.push(error);
      // Otherwise what an earlier user has left on the device would look like content.
      await target.zero(piece.start, piece.end);
    }
  }

  async #isKept({ start, end }: ImagePiece, target: PositionedTarget): Promise<boolean> {
    const { chunks } = this.#file;
    if (this.#options.resume !== true || chunks === undefined) return false;
    return chunks.holds(chunks.index.chunkAt(start), await target.read(start, end - start));
  }

  /** Nobody reads it again, unless the same chunk comes once more in the image. */
  #leave(start: number): void {
    const { chunks } = this.#file;
    chunks?.leave(chunks.index.chunkAt(start));
  }

  #read({ start, end }: ImagePiece): Promise<Loan> {
    return borrow(this.#file, start, end - start, this.#signal);
  }

  async #writeInOrder({ piece, loan }: WaitingPiece, target: SequentialTarget): Promise<void> {
    using lent = await loan;
    for (const slice of lent?.slices ?? []) await target.write(slice);
    if (piece.kind === 'zeros') {
      for (let at = piece.start; at < piece.end; at += zeroStep) {
        throwIfAborted(this.#signal);
        await target.write(zeroBytes(Math.min(zeroStep, piece.end - at)));
      }
    }
    this.#count(piece);
  }

  #count({ kind, start, end }: ImagePiece): void {
    this.#bytes += end - start;
    if (kind === 'zeros') this.#zeroBytes += end - start;
    else this.#leave(start);
    this.#options.onProgress?.(this.progress());
  }
}
