/** A regular file or a block device that an image is written to, at positions and several pieces at once. */
import type { FileHandle } from 'node:fs/promises';
import { Semaphore } from '../semaphore.ts';
import type { PositionedTarget } from './image-target.ts';
import { toLocalError } from './local-error.ts';

/** How a range of zeros comes about. */
export type ZeroMethod =
  /** It reads as zeros already: a new file, a target known to be empty. */
  | { readonly zeros: 'there' }
  /** Written where something else is found: keeps the holes of an earlier restore. */
  | { readonly zeros: 'compare' }
  | { readonly zeros: 'write' }
  /** By the device itself. */
  | {
      readonly zeros: 'device';
      readonly zeroOut: (start: number, end: number) => Promise<void>;
    };

/** Written at once: the chunk size of images. */
const zeroStep = 4 * 1024 * 1024;
const zeros = Buffer.alloc(zeroStep);
/**
 * Bytes after which the disk is set to work while the next ones come. Left to the kernel, gigabytes pile up in memory,
 * and the progress is done long before the disk is.
 */
const flushStep = 256 * 1024 * 1024;

export class DiskTarget implements PositionedTarget {
  readonly kind = 'positioned';
  readonly #handle: FileHandle;
  readonly #path: string;
  readonly #method: ZeroMethod;
  /** Long ranges side by side would only make a disk seek. */
  readonly #zeroing = new Semaphore(1);
  #unflushed = 0;
  #isFlushing = false;
  /** The kernel tells of a failed flush once. */
  #flushError: { readonly error: unknown } | undefined;

  constructor(handle: FileHandle, path: string, method: ZeroMethod) {
    this.#handle = handle;
    this.#path = path;
    this.#method = method;
  }

  async write(bytes: Uint8Array, offset: number): Promise<void> {
    await this.#locally(async () => {
      for (let done = 0; done < bytes.length; ) {
        const rest = bytes.length - done;
        done += (await this.#handle.write(bytes, done, rest, offset + done)).bytesWritten;
      }
    });
    this.#unflushed += bytes.length;
    if (this.#unflushed >= flushStep && !this.#isFlushing) void this.#flush();
  }

  async zero(start: number, end: number): Promise<void> {
    const method = this.#method;
    if (method.zeros === 'there') return;
    await this.#zeroing.run(async () => {
      if (method.zeros === 'device') return method.zeroOut(start, end);
      for (let at = start; at < end; at += zeroStep) {
        const length = Math.min(zeroStep, end - at);
        if (method.zeros === 'compare' && (await this.#isZero(at, length))) continue;
        await this.write(zeros.subarray(0, length), at);
      }
    });
  }

  async read(offset: number, length: number): Promise<Buffer> {
    return this.#locally(async () => {
      const buffer = Buffer.allocUnsafe(length);
      let filled = 0;
      while (filled < length) {
        const rest = length - filled;
        const { bytesRead } = await this.#handle.read(buffer, filled, rest, offset + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      return buffer.subarray(0, filled);
    });
  }

  async sync(): Promise<void> {
    await this.#locally(async () => {
      await this.#handle.sync();
      if (this.#flushError !== undefined) throw this.#flushError.error;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#locally(() => this.#handle.close());
  }

  async #flush(): Promise<void> {
    this.#isFlushing = true;
    this.#unflushed = 0;
    try {
      await this.#handle.datasync();
    } catch (error) {
      this.#flushError ??= { error };
    }
    this.#isFlushing = false;
  }

  async #isZero(offset: number, length: number): Promise<boolean> {
    return (await this.read(offset, length)).equals(zeros.subarray(0, length));
  }

  async #locally<T>(action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw toLocalError(error).at({ path: this.#path });
    }
  }
}
