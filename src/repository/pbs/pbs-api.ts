/**
 * The REST calls of PBS, with a login: JSON in and out, an expired ticket replaced once, failures as errors.
 *
 *   success   {"data": …}
 *   failure   a status and plain text
 */
import { throwIfAborted, unlessAborted } from '../../abort.ts';
import { PbsfsError } from '../../errors.ts';
import { answerError, answerText, isWebPage, webPageError } from './answer-error.ts';
import type { AuthHeaders, Credentials } from './credentials.ts';
import type { HttpAnswer, HttpClient } from './http-client.ts';

export type Query = Readonly<Record<string, string | number>>;

/** A listing of 20,000 snapshots has some 10 MB. */
const maxJsonLength = 256 * 1024 * 1024;

export class PbsApi {
  readonly credentials: Credentials;
  readonly #http: HttpClient;

  constructor(http: HttpClient, credentials: Credentials) {
    this.#http = http;
    this.credentials = credentials;
  }

  /**
   * The `data` of a GET.
   * @throws PbsfsError `access-denied` (401, 403), `failed` (400 and others), `unreachable`, `timeout`
   */
  async get(path: string, query: Query, signal?: AbortSignal): Promise<unknown> {
    const answer = await this.#send(path, query, maxJsonLength, signal);
    return parseData(answer.body, path);
  }

  /** The body of a GET as it is. @throws PbsfsError as `get`; `corrupt` above `limit` bytes. */
  async download(path: string, query: Query, limit: number, signal?: AbortSignal): Promise<Buffer> {
    const answer = await this.#send(path, query, limit, signal);
    const type = String(answer.headers['content-type'] ?? '');
    if (type.startsWith('text/html')) throw webPageError(answer.body);
    return answer.body;
  }

  /**
   * Sends something with a login. Where the login is refused, or was not even looked at, it is sent once
   * more with another, if there is another.
   */
  async withLogin<T extends { readonly status: number; readonly body: Uint8Array }>(
    send: (headers: AuthHeaders) => Promise<T>,
  ): Promise<T> {
    const headers = await this.credentials.headers();
    const answer = await send(headers);
    if (!isRefusal(answer)) return answer;
    const others = await this.credentials.replace(headers);
    return others === undefined ? answer : await send(others);
  }

  /** Access denied, with who it was denied to. */
  refusal(
    answer: { readonly status: number; readonly body: Uint8Array },
    what: string,
  ): PbsfsError {
    const error = answerError(answer.status, answer.body, what);
    if (answer.status !== 401) return error;
    const message = `the server refuses the login of ${this.credentials.authId}`;
    const text = answerText(answer.body);
    return new PbsfsError('access-denied', text === undefined ? message : `${message}: ${text}`, {
      hint: this.credentials.hint,
    });
  }

  async #send(
    path: string,
    query: Query,
    limit: number,
    signal: AbortSignal | undefined,
  ): Promise<HttpAnswer> {
    throwIfAborted(signal);
    const sent = this.withLogin((headers) =>
      this.#http.send({ path: apiPath(path, query), headers, limit, signal }),
    );
    // A login goes on for the others who need it.
    const answer = await unlessAborted(sent, signal);
    if (answer.status !== 200) throw this.refusal(answer, path);
    return answer;
  }
}

/** A known S3 proxy answers a request without a valid ticket with 200 and nothing. */
function isRefusal(answer: { readonly status: number; readonly body: Uint8Array }): boolean {
  return answer.status === 401 || (answer.status === 200 && answer.body.length === 0);
}

/** `/api2/json/…?…`, without the question mark where nothing follows: not every server takes it. */
function apiPath(path: string, query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) parameters.set(name, String(value));
  return `/api2/json${path}${parameters.size === 0 ? '' : `?${parameters}`}`;
}

/** The `data` of a successful answer. @throws PbsfsError `unreachable`, `corrupt` */
export function parseData(body: Buffer, path: string): unknown {
  if (body.length === 0) throw new PbsfsError('failed', `${path}: the server's answer is empty`);
  const text = body.toString();
  if (isWebPage(text)) throw webPageError(body);
  try {
    const { data } = JSON.parse(text) as { readonly data?: unknown };
    return data;
  } catch (cause) {
    throw new PbsfsError('corrupt', `${path}: the server's answer is not JSON`, { cause });
  }
}
