/**
 * Decodes chunks on threads of their own, several at once, so that the event loop keeps answering. Buffers are
 * handed over and back without a copy.
 *
 * Why not Node's thread pool: it copies every chunk to hash it, needs a trip each for decryption, unpacking
 * and hashing, and is shared with file reads (figures in docs/performance.md).
 */
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { type ErrorCode, PbsfsError } from '../errors.ts';
import type { CryptConfig } from '../formats/crypt-config.ts';
import { decodeChunk, type ExpectedChunk } from './decode-chunk.ts';

/** Turns stored chunks into verified plain ones. */
export interface ChunkDecoder {
  /**
   * @param raw given away: it must not be used any more.
   * @throws PbsfsError as `decodeChunk`
   */
  decode(raw: Buffer, expected: ExpectedChunk, crypt?: CryptConfig): Promise<Buffer>;
}

/** Decodes at once on the calling thread. */
export const decodeHere: ChunkDecoder = {
  decode: async (raw, expected, crypt) => decodeChunk(raw, expected, crypt),
};

/** To a thread. */
export interface DecodeTask {
  readonly raw: Uint8Array<ArrayBuffer>;
  readonly expected: ExpectedChunk;
  readonly key?: Uint8Array;
}

/** From a thread. */
export type DecodeAnswer =
  | { readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly code: ErrorCode; readonly message: string; readonly stack: string | undefined };

interface Job {
  readonly task: DecodeTask;
  resolve(bytes: Buffer): void;
  reject(error: unknown): void;
}

/** The one in work and the next one, so that a thread never waits for the event loop. */
const jobsPerThread = 2;
/** A trip to a thread and back takes about as long as decoding this much. */
const minLength = 64 * 1024;

export class DecoderThreads implements ChunkDecoder, Disposable {
  readonly #maxThreads: number;
  readonly #threads = new Set<DecoderThread>();
  readonly #waiting: Job[] = [];

  constructor(maxThreads: number = availableParallelism()) {
    this.#maxThreads = maxThreads;
  }

  async decode(raw: Buffer, expected: ExpectedChunk, crypt?: CryptConfig): Promise<Buffer> {
    if (expected.paddedLength < minLength) return decodeChunk(raw, expected, crypt);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ task: taskOf(raw, expected, crypt), resolve, reject });
      this.#dispatch();
    });
  }

  /** Ends the threads; what is in work fails. */
  [Symbol.dispose](): void {
    for (const thread of this.#threads) thread.end();
    this.#threads.clear();
  }

  #dispatch(): void {
    while (this.#waiting.length > 0) {
      const thread = this.#freeThread();
      if (thread === undefined) return;
      const job = this.#waiting.shift();
      if (job !== undefined) thread.run(job);
    }
  }

  /** The one with the least to do; a new one where all are at work. */
  #freeThread(): DecoderThread | undefined {
    let best: DecoderThread | undefined;
    for (const thread of this.#threads) {
      if (best === undefined || thread.jobs < best.jobs) best = thread;
    }
    if (best?.jobs !== 0 && this.#threads.size < this.#maxThreads) {
      const started = new DecoderThread(
        () => this.#dispatch(),
        () => this.#threads.delete(started),
      );
      this.#threads.add(started);
      return started;
    }
    return best !== undefined && best.jobs < jobsPerThread ? best : undefined;
  }
}

class DecoderThread {
  readonly #worker: Worker;
  /** In the order in which the answers come. */
  readonly #jobs: Job[] = [];

  constructor(onFree: () => void, onEnd: () => void) {
    // TypeScript in a checkout, JavaScript in the package.
    const file = import.meta.url.endsWith('.ts') ? 'decoder-thread.ts' : 'decoder-thread.js';
    this.#worker = new Worker(new URL(file, import.meta.url), { name: 'pbsfs decoder' });
    this.#worker.on('message', (answer: DecodeAnswer) => {
      const job = this.#jobs.shift();
      if (this.#jobs.length === 0) this.#worker.unref();
      onFree();
      if (job !== undefined) settle(job, answer);
    });
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', () => {
      onEnd();
      this.#fail(new Error('it ended'));
    });
    this.#worker.unref();
  }

  get jobs(): number {
    return this.#jobs.length;
  }

  run(job: Job): void {
    if (this.#jobs.length === 0) this.#worker.ref();
    this.#jobs.push(job);
    this.#worker.postMessage(job.task, [job.task.raw.buffer]);
  }

  end(): void {
    void this.#worker.terminate();
  }

  #fail(cause: Error): void {
    const error = new PbsfsError('bug', `a decoder thread failed: ${cause.message}`, { cause });
    for (const job of this.#jobs.splice(0)) job.reject(error);
  }
}

function taskOf(
  raw: Buffer,
  { digest, ...expected }: ExpectedChunk,
  crypt: CryptConfig | undefined,
): DecodeTask {
  return {
    raw: ownMemory(raw),
    // Copies: sent as views, they would take all that is behind them along, such as the whole index.
    expected: { ...expected, digest: new Uint8Array(digest) },
    ...(crypt === undefined ? {} : { key: new Uint8Array(crypt.revealKey()) }),
  };
}

/** Only memory that holds nothing else can be handed over. */
function ownMemory(raw: Buffer): Uint8Array<ArrayBuffer> {
  const { buffer } = raw;
  const isAlone = buffer instanceof ArrayBuffer && buffer.byteLength === raw.byteLength;
  return isAlone ? new Uint8Array(buffer) : new Uint8Array(raw);
}

function settle(job: Job, answer: DecodeAnswer): void {
  if ('bytes' in answer) {
    const { buffer, byteOffset, byteLength } = answer.bytes;
    job.resolve(Buffer.from(buffer, byteOffset, byteLength));
    return;
  }
  const error = new PbsfsError(answer.code, answer.message);
  if (answer.stack !== undefined) error.stack = answer.stack;
  job.reject(error);
}
