/**
 * Turns a checked TLS connection into the carrier of the reader protocol:
 *
 *   GET //api2/json/reader?… HTTP/1.1
 *   Connection: upgrade
 *   Upgrade: proxmox-backup-reader-protocol-v1
 *
 * The answer is read here and not by an HTTP library: those hide status and text of a refusal, or insist on
 * headers that some servers leave out of their 101.
 *
 * Source: PBS `pbs-client/src/http_client.rs` (start_h2_connection).
 */
import type { TLSSocket } from 'node:tls';
import { type HttpHead, readHttpHead, readSome } from './http-head.ts';

export interface UpgradeRequest {
  /** Path and query. */
  readonly path: string;
  /** `host:port` */
  readonly host: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Anything but 101. */
export interface UpgradeAnswer {
  readonly status: number;
  readonly body: Buffer;
}

const protocolName = 'proxmox-backup-reader-protocol-v1';
/** More of a refusal's text is not worth waiting for. */
const maxBodyLength = 64 * 1024;

/**
 * Sends the request. After a 101 the socket is paused, and what came behind the head is back in it.
 * @throws PbsfsError `unreachable`, and what the socket throws
 */
export async function upgrade(socket: TLSSocket, request: UpgradeRequest): Promise<UpgradeAnswer> {
  const lines = [
    `GET ${request.path} HTTP/1.1`,
    `Host: ${request.host}`,
    'Connection: upgrade',
    `Upgrade: ${protocolName}`,
    ...Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`),
  ];
  // HTTP/2 must not take the socket over while a write is pending.
  const written = new Promise<void>((resolve, reject) => {
    socket.write(`${lines.join('\r\n')}\r\n\r\n`, (error) => (error ? reject(error) : resolve()));
  });
  const [head] = await Promise.all([readHttpHead(socket), written]);
  if (head.status === 101) return { status: 101, body: Buffer.alloc(0) };
  return { status: head.status, body: await readText(socket, head) };
}

/** The text of a refusal: all that was announced, or what comes first. */
async function readText(socket: TLSSocket, { headers }: HttpHead): Promise<Buffer> {
  const announced = Number(headers.get('content-length') ?? 1);
  const length = Math.min(announced, maxBodyLength);
  let body = Buffer.alloc(0);
  while (body.length < length) {
    const part = await readSome(socket);
    if (part === undefined) break;
    body = Buffer.concat([body, part]);
  }
  const isChunked = headers.get('transfer-encoding') === 'chunked';
  // Only to be shown: the size of the first chunk is no part of it.
  return isChunked ? body.subarray(body.indexOf('\n') + 1) : body;
}
