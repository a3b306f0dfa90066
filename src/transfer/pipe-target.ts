/**
 * Standard output, or a named pipe, that an image is written to. Written on the thread pool, so that a slow
 * reader does not stop what is fetched meanwhile; Node's own `process.stdout` blocks where it is a pipe.
 */
import { write } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { PbsfsError } from '../errors.ts';
import type { SequentialTarget } from './image-target.ts';
import { errnoCode, toLocalError } from './local-error.ts';

const standardOutput = 1;
/** Another process that shares the pipe may have made it non-blocking; then a full one has to be asked again. */
const fullPipeDelay = 5;

export class PipeTarget implements SequentialTarget {
  readonly kind = 'sequential';
  readonly #fd: number;
  readonly #handle: FileHandle | undefined;

  private constructor(fd: number, handle?: FileHandle) {
    this.#fd = fd;
    this.#handle = handle;
  }

  static standardOutput(): PipeTarget {
    waitInWrites(process.stdout);
    return new PipeTarget(standardOutput);
  }

  /** Waits for a reader of a named pipe. @throws an errno error */
  static async open(path: string): Promise<PipeTarget> {
    const handle = await open(path, 'w');
    return new PipeTarget(handle.fd, handle);
  }

  /** @throws PbsfsError `failed` where nobody reads any more, or the disk behind is full */
  async write(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      try {
        done += await writeSome(this.#fd, bytes.subarray(done));
      } catch (error) {
        if (errnoCode(error) !== 'EAGAIN') throw outputError(error);
        await sleep(fullPipeDelay);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle?.close();
  }
}

/**
 * Whoever imports `node:process` makes Node open `process.stdout`, which turns a pipe non-blocking. A thread of
 * the pool may as well wait in write(2): asking again all the time is several times slower than a slow reader.
 */
function waitInWrites(stream: NodeJS.WriteStream): void {
  const { _handle: handle } = stream as { _handle?: { setBlocking?(isBlocking: boolean): void } };
  handle?.setBlocking?.(true);
}

function writeSome(fd: number, bytes: Uint8Array): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, (error, written) => {
      if (error === null) resolve(written);
      else reject(error);
    });
  });
}

function outputError(error: unknown): PbsfsError {
  if (errnoCode(error) !== 'EPIPE') return toLocalError(error);
  return new PbsfsError('failed', 'the reader of the output has gone', { cause: error });
}
