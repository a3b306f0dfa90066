/**
 * One GET on an HTTP/2 session, its body copied into a single buffer as the frames arrive. Deadlines are its
 * own: one for the head of the answer, one between two pieces of the body.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2';
import { abortError, throwIfAborted } from '../../abort.ts';
import { PbsfsError } from '../../errors.ts';
import type { Deadlines } from './deadlines.ts';
import { translateTransportError } from './transport-error.ts';

export interface Http2Request {
  readonly path: string;
  /** Most bytes that the answer may have. */
  readonly limit: number;
  /** So many bytes of a good answer are enough: the rest is not waited for. */
  readonly enough?: number;
  readonly signal?: AbortSignal | undefined;
  /** `host:port`, for messages. */
  readonly place: string;
  readonly deadlines: Deadlines;
}

export interface Http2Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** A body of unknown length starts with this much room. */
const firstRoom = 16 * 1024;
/** Given up with more than this share of the body here, it may still arrive: the cache wants it. */
const nearlyDone = 0.5;
/** So long at most, in milliseconds. */
const grace = 1000;

/** @throws PbsfsError `unreachable`, `timeout`, `aborted`, `corrupt` above the limit */
export function http2Get(session: ClientHttp2Session, request: Http2Request): Promise<Http2Answer> {
  return new Promise((resolve, reject) => {
    throwIfAborted(request.signal);
    let stream: ClientHttp2Stream;
    try {
      stream = session.request({ ':path': request.path });
    } catch (error) {
      throw translateTransportError(error, request.place);
    }
    new Exchange(stream, request, resolve, reject);
  });
}

class Exchange {
  readonly #stream: ClientHttp2Stream;
  readonly #request: Http2Request;
  readonly #resolve: (answer: Http2Answer) => void;
  readonly #reject: (error: PbsfsError) => void;
  readonly #onAbort = () => this.#abort();
  #timer: NodeJS.Timeout;
  #status = 0;
  #buffer: Buffer = Buffer.alloc(0);
  #announced: number | undefined;
  #received = 0;
  #isSettled = false;

  constructor(
    stream: ClientHttp2Stream,
    request: Http2Request,
    resolve: (answer: Http2Answer) => void,
    reject: (error: PbsfsError) => void,
  ) {
    this.#stream = stream;
    this.#request = request;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#timer = setTimeout(() => this.#expire(), request.deadlines.chunk);
    stream.on('response', (headers) => this.#start(headers));
    stream.on('data', (bytes: Buffer) => this.#take(bytes));
    stream.on('end', () => this.#end());
    stream.on('error', (error) => this.#fail(translateTransportError(error, request.place)));
    stream.on('close', () => this.#fail(this.#brokenOff()));
    request.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  #start(headers: IncomingHttpHeaders): void {
    this.#status = Number(headers[':status']);
    const announced = headers['content-length'];
    if (announced !== undefined) this.#announced = Number(announced);
    if (!this.#makeRoom(this.#enough ?? this.#announced ?? firstRoom)) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#expire(), this.#request.deadlines.progress);
  }

  /** A refusal is read to its end, for its text. */
  get #enough(): number | undefined {
    return this.#status === 200 ? this.#request.enough : undefined;
  }

  /** False where the limit forbids it, and the exchange is over. */
  #makeRoom(length: number): boolean {
    const { limit } = this.#request;
    if (!(length <= limit)) {
      this.#fail(new PbsfsError('corrupt', `the answer exceeds ${limit} bytes`));
      return false;
    }
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(length);
      this.#buffer.copy(larger, 0, 0, this.#received);
      this.#buffer = larger;
    }
    return true;
  }

  #take(bytes: Buffer): void {
    if (this.#isSettled) return;
    this.#timer.refresh();
    const enough = this.#enough;
    const end = Math.min(this.#received + bytes.length, enough ?? Number.POSITIVE_INFINITY);
    if (end > this.#buffer.length) {
      const { limit } = this.#request;
      const room = this.#announced === undefined ? Math.max(end, Math.min(2 * end, limit)) : end;
      if (!this.#makeRoom(room)) return;
    }
    bytes.copy(this.#buffer, this.#received);
    this.#received = end;
    if (end === enough) this.#finish();
  }

  #end(): void {
    const isWhole = this.#announced === undefined || this.#received === this.#announced;
    // Node ends a stream that the peer has reset, and a lost one, like a finished one.
    const { rstCode = constants.NGHTTP2_NO_ERROR } = this.#stream;
    const isFinished = rstCode === constants.NGHTTP2_NO_ERROR && this.#status !== 0;
    if (isFinished && isWhole) this.#finish();
    else this.#fail(this.#brokenOff());
  }

  #brokenOff(): PbsfsError {
    const of = this.#announced === undefined ? '' : ` of ${this.#announced}`;
    return new PbsfsError(
      'unreachable',
      `${this.#request.place}: the answer broke off after ${this.#received}${of} bytes`,
    );
  }

  #expire(): void {
    const { deadlines, place } = this.#request;
    const what =
      this.#status === 0
        ? `did not answer within ${deadlines.chunk} ms`
        : `sent nothing for ${deadlines.progress} ms in the middle of an answer`;
    this.#fail(new PbsfsError('timeout', `${place} ${what}`));
  }

  #abort(): void {
    const { signal } = this.#request;
    if (signal === undefined || this.#isSettled) return;
    const error = abortError(signal);
    if (this.#announced === undefined || this.#received < this.#announced * nearlyDone) {
      this.#fail(error);
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#fail(error), grace);
  }

  #finish(): void {
    const body = this.#buffer.subarray(0, this.#received);
    if (this.#settle()) this.#resolve({ status: this.#status, body });
  }

  #fail(error: PbsfsError): void {
    if (this.#settle()) this.#reject(error);
  }

  /** True the first time. The stream is over then, or is told to be. */
  #settle(): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    this.#request.signal?.removeEventListener('abort', this.#onAbort);
    // `destroy` as well, since a stream whose body arrived unread would never close.
    if (!this.#stream.readableEnded) this.#stream.close(constants.NGHTTP2_CANCEL);
    this.#stream.destroy();
    return true;
  }
}
