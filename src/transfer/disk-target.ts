/** A regular file or a block device that an image is written to, at positions and several pieces at once. */
import type { FileHandle } from 'node:fs/promises';
import { Semaphore } from '../semaphore.ts';
import { DirectWriter } from './direct-writer.ts';
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

export class DiskTarget implements PositionedTarget {
  readonly kind = 'positioned';
  readonly #handle: FileHandle;
  readonly #path: string;
  readonly #method: ZeroMethod;
  /** Long ranges side by side would only make a disk seek. */
  readonly #zeroing = new Semaphore(1);
  /** Opened with the first write. */
  #direct: Promise<DirectWriter | undefined> | undefined;

  constructor(handle: FileHandle, path: string, method: ZeroMethod) {
    this.#handle = handle;
    this.#path = path;
    this.#method = method;
  }

  async write(bytes: Uint8Array, offset: number): Promise<void> {
    await this.#locally(async () => {
      this.#direct ??= DirectWriter.open(this.#handle);
      let done = (await (await this.#direct)?.write(bytes, offset)) ?? 0;
      while (done < bytes.length) {
        const rest = bytes.length - done;
        done += (await this.#handle.write(bytes, done, rest, offset + done)).bytesWritten;
      }
    });
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
    await this.#locally(() => this.#handle.sync());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#locally(async () => {
      await (await this.#direct)?.[Symbol.asyncDispose]();
      await this.#handle.close();
    });
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
