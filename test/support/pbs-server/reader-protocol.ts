/** One reader session of the test server: HTTP/2 behind the upgrade, with the rule of allowed chunks. */
import { existsSync, readFileSync } from 'node:fs';
import http2, { type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { type Answer, type Fault, type Faults, faultAnswer, flipByte } from './faults.ts';
import { BadRequest, checkParameters } from './parameters.ts';
import type { StoreReader } from './store-reader.ts';

export interface SessionContext {
  readonly reader: StoreReader;
  /** Directory of the snapshot. */
  readonly snapshotPath: string;
  readonly faults: Faults;
  /** Has no list of allowed chunks, and other statuses. */
  readonly isS3Proxy: boolean;
  /** Milliseconds before a 401. */
  authDelay(): number;
  /** Milliseconds before every answer. */
  answerDelay(): number;
  /** Told of each request that is answered. */
  count(kind: 'index' | 'chunk' | 'other', path: string): void;
}

const json = 'application/json;charset=UTF-8';
const octets = 'application/octet-stream';
const headerSize = 4096;
const windowSize = 32 * 1024 * 1024;

export class ReaderProtocol {
  readonly session: ServerHttp2Session;
  readonly snapshotPath: string;
  readonly #context: SessionContext;
  readonly #allowed = new Set<string>();
  /** Requests that are neither answered to the end nor cancelled. */
  openStreams = 0;

  constructor(socket: TLSSocket, context: SessionContext) {
    this.#context = context;
    this.snapshotPath = context.snapshotPath;
    this.session = http2.performServerHandshake(socket, {
      maxSessionMemory: 1000,
      settings: {
        initialWindowSize: windowSize,
        maxFrameSize: 4 * 1024 * 1024,
        maxHeaderListSize: 16 * 1024 * 1024,
      },
    });
    this.session.on('error', () => {});
    this.session.on('stream', (stream, headers) => {
      stream.on('error', () => {});
      this.openStreams += 1;
      stream.on('close', () => {
        this.openStreams -= 1;
      });
      this.#serve(stream, String(headers[':method']), String(headers[':path']));
    });
  }

  #serve(stream: ServerHttp2Stream, method: string, target: string): void {
    const url = new URL(target, 'https://localhost');
    const isIndex = /\.[fd]idx$/.test(url.searchParams.get('file-name') ?? '');
    const kind = url.pathname === '/chunk' ? 'chunk' : isIndex ? 'index' : 'other';
    this.#context.count(kind, target);
    const fault = this.#context.faults.take({ kind, path: target });
    if (fault === 'silence') return;
    if (fault === 'goaway') this.session.goaway(0);
    const answer = faultAnswer(fault) ?? this.#answer(method, url);
    const delay = (answer.delay ?? 0) + this.#context.answerDelay() + (fault === 'slow' ? 100 : 0);
    if (delay === 0) this.#send(stream, answer, fault);
    else setTimeout(() => this.#send(stream, answer, fault), delay).unref();
    if (fault === 'goaway') this.session.close();
  }

  #send(stream: ServerHttp2Stream, answer: Answer, fault: Fault | undefined): void {
    if (stream.destroyed || stream.closed) return;
    const body = fault === 'wrong-bytes' ? flipByte(answer.body) : answer.body;
    stream.respond({
      ':status': answer.status,
      ...(answer.type === undefined ? {} : { 'content-type': answer.type }),
      ...(answer.chunked === true ? {} : { 'content-length': String(body.length) }),
    });
    const half = body.subarray(0, Math.floor(body.length / 2));
    if (fault === 'stall') stream.write(half);
    else if (fault === 'drop') stream.write(half, () => this.session.destroy());
    else if (fault === 'reset') {
      stream.write(half, () => stream.destroy(new Error('injected')));
    } else stream.end(fault === 'truncate' ? half : body);
  }

  #answer(method: string, url: URL): Answer {
    try {
      if (method !== 'GET') return notFound(url.pathname);
      if (url.pathname === '/chunk') return this.#chunk(url.searchParams);
      if (url.pathname === '/download') return this.#download(url.searchParams);
      if (url.pathname === '/speedtest') {
        return { status: 200, type: octets, body: Buffer.alloc(1024 * 1024, 'A') };
      }
      if (url.pathname === '/') {
        const names = ['chunk', 'download', 'speedtest'].map((subdir) => ({ subdir }));
        return { status: 200, type: json, body: Buffer.from(JSON.stringify({ data: names })) };
      }
      return notFound(url.pathname);
    } catch (error) {
      if (!(error instanceof BadRequest)) throw error;
      return { status: 400, body: Buffer.from(error.message) };
    }
  }

  #chunk(query: URLSearchParams): Answer {
    const { digest = '' } = checkParameters(query, { required: ['digest'] });
    if (!this.#allowed.has(digest) && !this.#context.isS3Proxy) {
      const body = Buffer.from(`download chunk ${digest} not allowed`);
      return { status: 401, type: json, body, delay: this.#context.authDelay() };
    }
    const path = this.#context.reader.chunkPath(digest);
    if (!existsSync(path)) {
      const why = 'No such file or directory (os error 2)';
      const status = this.#context.isS3Proxy ? 404 : 400;
      return { status, type: json, body: Buffer.from(`reading file "${path}" failed: ${why}`) };
    }
    return { status: 200, type: octets, body: readFileSync(path) };
  }

  #download(query: URLSearchParams): Answer {
    const { 'file-name': name = '' } = checkParameters(query, { required: ['file-name'] });
    const path = join(this.snapshotPath, name);
    const kind = /\.(blob|fidx|didx)$/.exec(name)?.[1];
    if (kind === undefined) return { status: 400, type: json, body: Buffer.from('unknown type') };
    if (!existsSync(path)) return missing(kind, path);
    const body = readFileSync(path);
    if (kind !== 'blob') this.#allow(body, kind);
    return { status: 200, type: octets, body, chunked: true };
  }

  #allow(index: Buffer, kind: string): void {
    const entry = kind === 'fidx' ? 32 : 40;
    for (let at = headerSize; at + entry <= index.length; at += entry) {
      this.#allowed.add(index.toString('hex', at + entry - 32, at + entry));
    }
  }
}

function notFound(path: string): Answer {
  return { status: 404, type: json, body: Buffer.from(`Path '${path}' not found.`) };
}

function missing(kind: string, path: string): Answer {
  if (kind === 'blob') {
    return { status: 404, type: json, body: Buffer.from(`open file "${path}" failed - not found`) };
  }
  const index = kind === 'fidx' ? 'fixed' : 'dynamic';
  const why = `Unable to open ${index} index "${path}" - No such file or directory (os error 2)`;
  return { status: 400, type: json, body: Buffer.from(why) };
}
