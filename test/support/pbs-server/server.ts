/**
 * A Proxmox Backup Server for tests, over any datastore directory: TLS, REST with tokens and tickets, and
 * the reader protocol, answering as PBS 3.2.4 was seen to answer (test/integration/pbs-server.test.ts
 * compares). It reads the directory itself and shares no code with what it tests.
 *
 * It can also misbehave: see faults.ts for single requests, link.ts for the line, and `restart`.
 */
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import tls, { type TLSSocket } from 'node:tls';
import { Access, type Account, aclPath, allRights, hasAny, mayUse } from './access.ts';
import { type CertificateName, readCertificate, type ServerCertificate } from './certificates.ts';
import {
  type Answer,
  type Fault,
  Faults,
  faultAnswer,
  flipByte,
  type RequestKind,
} from './faults.ts';
import { Link, type LinkOptions } from './link.ts';
import { BadRequest, checkParameters } from './parameters.ts';
import { ReaderProtocol } from './reader-protocol.ts';
import { type ApiContext, answerRest, errorAnswer, type RestRequest } from './rest-api.ts';
import { answerS3Proxy } from './s3-proxy.ts';
import { formatTime, StoreReader } from './store-reader.ts';

export const testUser = 'reader@pbs';
export const testPassword = 'throw-away-password';

export interface PbsServerOptions {
  readonly directory: string;
  /** Default `store1`. */
  readonly store?: string;
  /** Default: `reader@pbs` with all rights. */
  readonly accounts?: readonly Account[];
  readonly certificate?: CertificateName;
  /** Milliseconds before every 401; the real server takes 3000. Default 0. */
  readonly authDelay?: number;
  readonly hostCookie?: boolean;
  /** Which server to be. */
  readonly dialect?: 'pbs' | 's3-proxy';
  /** Put a line of this quality in front. */
  readonly link?: LinkOptions;
  readonly port?: number;
}

const readerProtocol = 'proxmox-backup-reader-protocol-v1';

function defaultAccount(): Account {
  return { authId: testUser, secret: testPassword, acl: { '/': [...allRights] } };
}

export class PbsServer implements AsyncDisposable {
  readonly store: string;
  readonly access: Access;
  readonly faults = new Faults();
  certificate: ServerCertificate;
  /** Milliseconds before every 401. */
  authDelay: number;
  /** Milliseconds before the answer to a login. */
  loginDelay = 0;
  /** Milliseconds before every answer: a distance that, unlike `link`, takes no processor time. */
  answerDelay = 0;
  /** Every request as `kind path`, in order. */
  readonly requests: string[] = [];
  /** TCP connections that were made. */
  connections = 0;
  /** Snapshot directories that something else holds a lock on. */
  readonly locked = new Set<string>();
  link: Link | undefined;
  /** Answers a REST call in the place of the server. */
  answerInstead: (request: RestRequest) => Answer | undefined = () => undefined;
  /** Answers requests of one's own to paths below `/test/`, with what becomes JSON. */
  onControl: ((body: string) => Promise<object>) | undefined;

  readonly #isS3Proxy: boolean;
  readonly #reader: StoreReader;
  readonly #http = http.createServer();
  readonly #sockets = new Set<TLSSocket>();
  readonly #sessions = new Set<ReaderProtocol>();
  #tls: tls.Server;
  #port: number;

  private constructor(options: PbsServerOptions) {
    this.store = options.store ?? 'store1';
    this.#reader = new StoreReader(options.directory);
    this.access = new Access({
      accounts: options.accounts ?? [defaultAccount()],
      hostCookie: options.hostCookie ?? false,
    });
    this.#isS3Proxy = options.dialect === 's3-proxy';
    this.authDelay = options.authDelay ?? 0;
    this.certificate = readCertificate(options.certificate ?? 'self-signed');
    this.#port = options.port ?? 0;
    // Real PBS sends no Keep-Alive header and keeps connections for long.
    this.#http.keepAliveTimeout = 0;
    this.#http.on('request', (request, response) => void this.#onRequest(request, response));
    this.#http.on(
      'upgrade',
      (request, socket) => void this.#onUpgrade(request, socket as TLSSocket),
    );
    this.#tls = this.#createTls();
  }

  static async start(options: PbsServerOptions): Promise<PbsServer> {
    const server = new PbsServer(options);
    await server.#listen();
    if (options.link !== undefined) server.link = await Link.open(server.#port, options.link);
    return server;
  }

  /** Where clients connect to. */
  get port(): number {
    return this.link?.port ?? this.#port;
  }

  get repository(): string {
    return `${testUser}@127.0.0.1:${this.port}:${this.store}`;
  }

  get fingerprint(): string {
    return this.certificate.fingerprint;
  }

  /** Directories of the snapshots that have a reader session, one for each session. */
  get openSessions(): readonly string[] {
    return [...this.#sessions].map((session) => session.snapshotPath);
  }

  /** Requests within sessions that are neither answered to the end nor cancelled. */
  get openStreams(): number {
    return [...this.#sessions].reduce((sum, { openStreams }) => sum + openStreams, 0);
  }

  /** TLS connections that are open now. */
  get openConnections(): number {
    return this.#sockets.size;
  }

  count(kind: RequestKind): number {
    return this.requests.filter((request) => request.startsWith(`${kind} `)).length;
  }

  /** Ends every connection at once, as a stopped daemon does, and comes back on the same port. */
  async restart(downFor = 0): Promise<void> {
    await this.#stop();
    if (downFor > 0) await new Promise((resolve) => setTimeout(resolve, downFor));
    this.#tls = this.#createTls();
    await this.#listen();
  }

  /** Ends every connection, the server stays. */
  dropConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Presents another certificate from the next connection on. */
  replaceCertificate(name: CertificateName): void {
    this.certificate = readCertificate(name);
    this.#tls.setSecureContext({ key: this.certificate.key, cert: this.certificate.cert });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.link?.[Symbol.asyncDispose]();
    await this.#stop();
  }

  #createTls(): tls.Server {
    const { key, cert } = this.certificate;
    const server = tls.createServer({ key, cert }, (socket) => {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
      this.#http.emit('connection', socket);
    });
    server.on('connection', () => {
      this.connections += 1;
    });
    server.on('tlsClientError', () => {});
    return server;
  }

  async #listen(): Promise<void> {
    this.#tls.listen(this.#port, '127.0.0.1');
    await once(this.#tls, 'listening');
    this.#port = (this.#tls.address() as AddressInfo).port;
  }

  async #stop(): Promise<void> {
    const closed = once(this.#tls, 'close');
    this.#tls.close();
    this.dropConnections();
    await closed;
  }

  get #context(): ApiContext {
    return {
      store: this.store,
      reader: this.#reader,
      access: this.access,
      openSessions: () => this.#sessions.size,
    };
  }

  async #onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const rest = await readRequest(request);
    if (rest.path.startsWith('/test/') && this.onControl !== undefined) {
      response.end(JSON.stringify(await this.onControl(rest.body)));
      return;
    }
    const kind = kindOf(rest.path);
    this.requests.push(`${kind} ${request.url}`);
    const fault = this.faults.take({ kind, path: rest.path });
    if (fault === 'silence') return;
    const answer = faultAnswer(fault) ?? this.#answer(rest, request.url ?? '');
    await this.#pause(answer, kind, fault);
    sendHttp1(response, answer, fault);
  }

  #answer(rest: RestRequest, rawPath: string): Answer {
    const other = this.answerInstead(rest);
    if (other !== undefined) return other;
    return this.#isS3Proxy
      ? answerS3Proxy(this.#context, rest, rawPath)
      : answerRest(this.#context, rest);
  }

  async #pause(answer: Answer, kind: RequestKind, fault: Fault | undefined): Promise<void> {
    const delay =
      (answer.delay ?? 0) +
      (answer.status === 401 ? this.authDelay : 0) +
      (kind === 'login' ? this.loginDelay : 0) +
      this.answerDelay +
      (fault === 'slow' ? 100 : 0);
    if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
  }

  async #onUpgrade(request: IncomingMessage, socket: TLSSocket): Promise<void> {
    this.requests.push(`upgrade ${request.url}`);
    const fault = this.faults.take({ kind: 'upgrade', path: request.url ?? '' });
    if (fault === 'silence') return;
    if (fault === 'drop' || fault === 'reset') {
      socket.destroy();
      return;
    }
    const refusal = faultAnswer(fault) ?? this.#refusal(request);
    if (refusal !== undefined) {
      await this.#pause(refusal, 'upgrade', fault);
      if (!socket.destroyed) writeRefusal(socket, refusal);
      return;
    }
    const { searchParams } = requestUrl(request);
    const headers = this.#isS3Proxy
      ? 'Upgrade: proxmox-backup-protocol-v1'
      : `connection: upgrade\r\nupgrade: ${readerProtocol}`;
    const head = `HTTP/1.1 101 Switching Protocols\r\n${headers}\r\n\r\n`;
    // Node aborts the process when the handshake starts while this write is still pending.
    socket.write(head, () => this.#startSession(socket, this.#snapshotPath(searchParams)));
  }

  #startSession(socket: TLSSocket, snapshotPath: string): void {
    if (socket.destroyed) return;
    const protocol = new ReaderProtocol(socket, {
      reader: this.#reader,
      snapshotPath,
      faults: this.faults,
      authDelay: () => this.authDelay,
      answerDelay: () => this.answerDelay,
      isS3Proxy: this.#isS3Proxy,
      count: (kind, path) => this.requests.push(`${kind} ${path}`),
    });
    this.#sessions.add(protocol);
    socket.on('close', () => this.#sessions.delete(protocol));
  }

  #snapshotPath(query: URLSearchParams): string {
    return this.#reader.snapshotPath(
      query.get('ns') ?? '',
      query.get('backup-type') ?? '',
      query.get('backup-id') ?? '',
      Number(query.get('backup-time')),
    );
  }

  /** Why the upgrade is refused, in the real server's order of checks. */
  #refusal(request: IncomingMessage): Answer | undefined {
    if (this.#isS3Proxy && !request.url?.startsWith('//api2/json/reader')) {
      return { status: 200, body: Buffer.alloc(0) };
    }
    try {
      const account = this.access.authenticate(request.headers);
      const values = checkParameters(requestUrl(request).searchParams, {
        required: ['backup-id', 'backup-time', 'backup-type', 'store'],
        optional: ['ns', 'debug'],
      });
      const { ns = '', 'backup-type': type = '', 'backup-id': id = '' } = values;
      const path = aclPath(values['store'] ?? '', ns);
      if (!hasAny(account, path, 'Datastore.Read', 'Datastore.Backup')) {
        throw new BadRequest(`no permissions on ${path}`);
      }
      if (values['store'] !== this.store)
        throw new BadRequest(`no such datastore '${values['store']}'`);
      if (request.headers.upgrade !== readerProtocol) throw new BadRequest('invalid protocol name');
      if (
        !hasAny(account, path, 'Datastore.Read') &&
        !mayUse(this.#reader.owner(ns, type, id), account.authId)
      ) {
        throw new BadRequest('backup owner check failed!');
      }
      this.#checkSnapshot(requestUrl(request).searchParams);
      return undefined;
    } catch (error) {
      return errorAnswer(error);
    }
  }

  #checkSnapshot(query: URLSearchParams): void {
    const path = this.#snapshotPath(query);
    if (!existsSync(path)) {
      const time = formatTime(Number(query.get('backup-time')));
      const name = `${query.get('backup-type')}/${query.get('backup-id')}/${time}`;
      throw new BadRequest(`snapshot ${name} does not exist.`);
    }
    if (this.locked.has(path)) {
      throw new BadRequest(
        `unable to acquire lock on snapshot directory "${path}" - locked by another operation`,
      );
    }
  }
}

function requestUrl(request: IncomingMessage): URL {
  return new URL((request.url ?? '').replace(/^\/+/, '/'), 'https://localhost');
}

async function readRequest(request: IncomingMessage): Promise<RestRequest> {
  let body = '';
  for await (const part of request) body += part;
  const url = requestUrl(request);
  return {
    method: request.method ?? 'GET',
    path: url.pathname,
    query: url.searchParams,
    headers: request.headers,
    body,
  };
}

function kindOf(path: string): RequestKind {
  if (path.endsWith('/access/ticket')) return 'login';
  if (path.endsWith('/download')) return 'file';
  return path.includes('/admin/datastore') ? 'list' : 'other';
}

function sendHttp1(response: ServerResponse, answer: Answer, fault: Fault | undefined): void {
  const body = fault === 'wrong-bytes' ? flipByte(answer.body) : answer.body;
  if (response.destroyed) return;
  response.writeHead(answer.status, {
    ...(answer.type === undefined || answer.type === '' ? {} : { 'content-type': answer.type }),
    ...answer.headers,
    ...(answer.chunked === true
      ? { 'transfer-encoding': 'chunked' }
      : { 'content-length': String(body.length) }),
  });
  const half = body.subarray(0, Math.floor(body.length / 2));
  if (fault === 'stall') response.write(half);
  else if (fault === 'drop' || fault === 'reset') {
    response.write(half, () => response.socket?.destroy());
  } else if (fault === 'truncate') {
    // Only a chunked answer can end early and still be well-formed.
    if (answer.chunked === true) response.end(half);
    else response.write(half, () => response.socket?.destroy());
  } else response.end(body);
}

function writeRefusal(socket: TLSSocket, answer: Answer): void {
  const status = `${answer.status} ${http.STATUS_CODES[answer.status] ?? ''}`;
  const type = answer.type ? `content-type: ${answer.type}\r\n` : '';
  const length = `content-length: ${answer.body.length}\r\n`;
  socket.write(`HTTP/1.1 ${status}\r\n${type}${length}\r\n`);
  socket.end(answer.body);
}
