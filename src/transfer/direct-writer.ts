/**
 * Writes past the page cache (`O_DIRECT`). What a restore writes nobody reads soon: in the page cache it would push
 * out what the machine works with, take memory by the page, and pile up until the fsync at the end.
 *
 * The kernel wants offset, length and memory aligned. Chunks lie anywhere in memory, so they are copied into memory of
 * the writer's own, which the page cache would have cost as well.
 */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { Semaphore } from '../semaphore.ts';
import { errnoCode } from './local-error.ts';

/** The largest logical block of disks, and the page size; a multiple of every smaller one. */
const alignment = 4096;
/** The chunk size of images. */
const slotSize = 4 * 1024 * 1024;
/** Writes under way at once: enough that a disk always has the next one. */
const slotCount = 4;
const wasmPageSize = 64 * 1024;

/** Of the standard library of browsers, which is not among the types of Node. */
declare const WebAssembly: {
  readonly Memory: new (pages: { initial: number; maximum: number }) => { buffer: ArrayBuffer };
};

export class DirectWriter implements AsyncDisposable {
  readonly #handle: FileHandle;
  readonly #slots: Buffer[];
  readonly #free = new Semaphore(slotCount);
  #isRefused = false;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
    this.#slots = alignedSlots();
  }

  /** A writer to the same file, or undefined where its filesystem, or this system, has no such thing. */
  static async open(file: FileHandle): Promise<DirectWriter | undefined> {
    try {
      // By number: the path may lead elsewhere by now.
      const flags = constants.O_WRONLY | constants.O_DIRECT;
      return new DirectWriter(await open(`/proc/self/fd/${file.fd}`, flags));
    } catch {
      return undefined;
    }
  }

  /**
   * Writes what can be written so of `bytes`, from their start.
   * @returns bytes that were written; the rest has to go another way.
   */
  async write(bytes: Uint8Array, offset: number): Promise<number> {
    if (offset % alignment !== 0) return 0;
    const length = bytes.length - (bytes.length % alignment);
    let done = 0;
    while (done < length && !this.#isRefused) {
      const part = bytes.subarray(done, Math.min(length, done + slotSize));
      const written = await this.#free.run(() => this.#writePart(part, offset + done));
      done += written;
      if (written % alignment !== 0) break;
    }
    return done;
  }

  async #writePart(part: Uint8Array, offset: number): Promise<number> {
    const slot = this.#slots.pop() as Buffer;
    try {
      slot.set(part);
      return (await this.#handle.write(slot, 0, part.length, offset)).bytesWritten;
    } catch (error) {
      // Some filesystems refuse only now.
      if (errnoCode(error) !== 'EINVAL') throw error;
      this.#isRefused = true;
      return 0;
    } finally {
      this.#slots.push(slot);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}

/** Memory of WebAssembly begins at a page; that of buffers does not. */
function alignedSlots(): Buffer[] {
  const pages = (slotCount * slotSize) / wasmPageSize;
  const { buffer } = new WebAssembly.Memory({ initial: pages, maximum: pages });
  return Array.from({ length: slotCount }, (_, i) => Buffer.from(buffer, i * slotSize, slotSize));
}
