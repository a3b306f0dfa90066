/**
 * What the test server can be told to do wrong, and to which requests. A fault is queued for the next
 * matching requests, or chosen for each by a function.
 */

export type RequestKind = 'login' | 'list' | 'file' | 'upgrade' | 'index' | 'chunk' | 'other';

export const faultNames = [
  /** Plain-text error answers. */
  'status-400',
  'status-401',
  'status-403',
  'status-404',
  'status-500',
  'status-503',
  /** An error page of a reverse proxy (502), and a web page with status 200. */
  'html-502',
  'html-200',
  /** Never answered. */
  'silence',
  /** Half of the body, then nothing. */
  'stall',
  /** Half of the body, then the connection is gone. */
  'drop',
  /** Half of the body, then only this stream is reset. */
  'reset',
  /** Half of the body, then a clean end. */
  'truncate',
  /** One byte of the body is another. */
  'wrong-bytes',
  /** The session says GOAWAY, answers what is in flight, and ends. */
  'goaway',
  /** The answer comes 100 ms late. */
  'slow',
] as const;

export type Fault = (typeof faultNames)[number];

export interface FaultRequest {
  readonly kind: RequestKind;
  readonly path: string;
}

export interface QueuedFault {
  readonly on: RequestKind;
  readonly fault: Fault;
  readonly count: number;
}

export class Faults {
  #queue: { on: RequestKind; fault: Fault; left: number }[] = [];
  /** Asked for each request that no queued fault takes. */
  choose: (request: FaultRequest) => Fault | undefined = () => undefined;

  add({ on, fault, count }: QueuedFault): void {
    this.#queue.push({ on, fault, left: count });
  }

  clear(): void {
    this.#queue = [];
    this.choose = () => undefined;
  }

  take(request: FaultRequest): Fault | undefined {
    const queued = this.#queue.find((entry) => entry.on === request.kind && entry.left > 0);
    if (queued === undefined) return this.choose(request);
    queued.left -= 1;
    return queued.fault;
  }
}

export interface Answer {
  readonly status: number;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Sent without a content-length. */
  readonly chunked?: boolean;
  /** Milliseconds before it is sent. */
  readonly delay?: number;
}

const statusFault = /^status-(\d+)$/;

/** The answer that a fault puts in the place of the right one; undefined for the others. */
export function faultAnswer(fault: Fault | undefined): Answer | undefined {
  const status = statusFault.exec(fault ?? '')?.[1];
  if (status !== undefined) {
    return { status: Number(status), body: Buffer.from('this is an injected fault') };
  }
  if (fault === 'html-502' || fault === 'html-200') {
    const body = Buffer.from(
      '<!DOCTYPE html>\n<html><title>Bad Gateway</title><p>nginx</p></html>\n',
    );
    return { status: fault === 'html-502' ? 502 : 200, type: 'text/html', body };
  }
  return undefined;
}

/** The body with one bit changed. */
export function flipByte(body: Buffer): Buffer {
  const copy = Buffer.from(body);
  const at = Math.floor(copy.length / 2);
  if (copy.length > 0) copy[at] = (copy[at] ?? 0) ^ 1;
  return copy;
}
