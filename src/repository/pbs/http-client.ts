/**
 * HTTP/1.1 requests to one server over a few kept-alive connections. Knows neither logins nor JSON: an
 * answer of any status is an answer.
 */
import { Pool } from 'undici';
import { throwIfAborted } from '../../abort.ts';
import { PbsfsError } from '../../errors.ts';
import { createTrace } from '../../log.ts';
import type { Deadlines } from './deadlines.ts';
import type { TlsConnector } from './tls-connector.ts';
import { translateTransportError } from './transport-error.ts';

const trace = createTrace('pbs');

export interface HttpRequest {
  readonly method?: 'GET' | 'POST';
  /** With its query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Most bytes that the answer may have. */
  readonly limit: number;
  readonly signal?: AbortSignal | undefined;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** Enough for a directory listing beside some blobs, and no burden on the server. */
const maxConnections = 6;
/** An idle connection is closed after this, before a server or firewall drops it silently. */
const idleTimeout = 10_000;

export class HttpClient implements AsyncDisposable {
  readonly #pool: Pool;
  readonly #place: string;

  constructor(connector: TlsConnector, deadlines: Deadlines) {
    this.#place = connector.place;
    this.#pool = new Pool(`https://${connector.place}`, {
      allowH2: false,
      connections: maxConnections,
      headersTimeout: deadlines.headers,
      bodyTimeout: deadlines.progress,
      keepAliveTimeout: idleTimeout,
      keepAliveMaxTimeout: idleTimeout,
      connect: (_, callback) => {
        connector.connect().then(
          (socket) => callback(null, socket),
          (error: Error) => callback(error, null),
        );
      },
    });
  }

  /** @throws PbsfsError `unreachable`, `timeout`, `access-denied` (the certificate), `aborted`, `corrupt` */
  async send(request: HttpRequest): Promise<HttpAnswer> {
    const { method = 'GET', path, headers = {}, body = null, signal } = request;
    throwIfAborted(signal);
    try {
      const answer = await this.#pool.request({
        method,
        path,
        headers,
        body,
        ...(signal === undefined ? {} : { signal }),
      });
      const { statusCode: status, headers: answered } = answer;
      const received = await collect(answer.body, request.limit);
      trace('%s %s: %d, %d bytes', method, path, status, received.length);
      return { status, headers: answered, body: received };
    } catch (error) {
      trace('%s %s: %s', method, path, String(error));
      throwIfAborted(signal);
      throw translateTransportError(error, this.#place);
    }
  }

  /** Ends every request at once. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.destroy(new PbsfsError('aborted', 'the repository was closed'));
  }
}

/** Leaving the loop by an error destroys the body, and with it the connection. */
async function collect(body: AsyncIterable<Buffer>, limit: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of body) {
    length += part.length;
    if (length > limit) {
      throw new PbsfsError('corrupt', `the answer exceeds ${limit} bytes`);
    }
    parts.push(part);
  }
  return Buffer.concat(parts, length);
}
