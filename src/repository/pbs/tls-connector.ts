/**
 * Makes TLS connections to one server: TCP, a tunnel through a proxy where one is set, the handshake, and the
 * check of the certificate. What comes out has been checked and carried no request yet.
 *
 * No session is ever resumed, since Node shows no certificate then, and no ALPN is offered: PBS speaks
 * HTTP/1.1 first.
 */
import net, { type Socket } from 'node:net';
import tls, { type SecureContext, type TLSSocket } from 'node:tls';
import { abortError } from '../../abort.ts';
import { PbsfsError } from '../../errors.ts';
import { formatFingerprint } from '../../formats/fingerprint.ts';
import {
  type CertificateVerdict,
  certificateError,
  judgeCertificate,
} from './certificate-check.ts';
import { firstOf } from './http-head.ts';
import { openTunnel, type ProxySettings } from './proxy.ts';
import { translateTransportError } from './transport-error.ts';

/** Asks the user whether a certificate that could not be verified is the right one. */
export type ConfirmFingerprint = (question: {
  readonly place: string;
  readonly seen: string;
  readonly expected: string | undefined;
  readonly fault: string;
}) => Promise<boolean>;

export interface TlsConnectorOptions {
  /** An IPv6 address keeps its brackets. */
  readonly host: string;
  readonly port: number;
  /** SHA-256 of the certificate. */
  readonly fingerprint?: Buffer | undefined;
  readonly proxy?: ProxySettings | undefined;
  readonly confirmFingerprint?: ConfirmFingerprint | undefined;
  /** CA certificates, PEM, besides those of Node and of the system. */
  readonly ca?: readonly string[] | undefined;
  /** Milliseconds for everything up to the finished handshake. */
  readonly deadline: number;
}

/** That of PBS's client, seconds of silence before TCP probes the peer. */
const keepAliveDelay = 120_000;

export class TlsConnector implements Disposable {
  /** `host:port`, for messages. */
  readonly place: string;
  readonly #options: TlsConnectorOptions;
  readonly #address: string;
  readonly #closing = new AbortController();
  #confirmed: Buffer | undefined;
  #question: Promise<boolean> | undefined;
  #context: SecureContext | undefined;
  #isSystemTrusted = false;

  constructor(options: TlsConnectorOptions) {
    this.#options = options;
    this.#address = options.host.replace(/^\[(.*)\]$/, '$1');
    this.place = `${options.host}:${options.port}`;
  }

  /**
   * A new connection whose certificate was accepted.
   * @throws PbsfsError `unreachable`, `timeout`, `access-denied`, `aborted`
   */
  async connect(signal?: AbortSignal): Promise<TLSSocket> {
    const attempt = await this.#attempt(signal);
    if (attempt.verdict.accepted) return attempt.socket;
    attempt.socket.destroy();
    if (!this.#isSystemTrusted) {
      // Node brings its own list of CAs. To load the system's takes a tenth of a second, so it waits until
      // it is needed.
      this.#trustSystem();
      return await this.connect(signal);
    }
    await this.#confirm(attempt.verdict);
    return await this.connect(signal);
  }

  /** Breaks off what is being connected, and refuses further connections. */
  [Symbol.dispose](): void {
    this.#closing.abort(new PbsfsError('aborted', 'the repository was closed'));
  }

  #trustSystem(): void {
    this.#isSystemTrusted = true;
    this.#context = tls.createSecureContext({
      ca: [
        ...tls.getCACertificates('default'),
        ...tls.getCACertificates('system'),
        ...(this.#options.ca ?? []),
      ],
    });
  }

  /** One question for all connections that wait. @throws PbsfsError `access-denied` */
  async #confirm(verdict: CertificateVerdict): Promise<void> {
    const { confirmFingerprint, fingerprint } = this.#options;
    const { seen, fault = '' } = verdict;
    const refusal = certificateError(this.place, verdict, fingerprint);
    if (confirmFingerprint === undefined || seen === undefined) throw refusal;
    if (this.#confirmed?.equals(seen) === true) return;
    this.#question ??= confirmFingerprint({
      place: this.place,
      seen: formatFingerprint(seen),
      expected: fingerprint === undefined ? undefined : formatFingerprint(fingerprint),
      fault,
    }).finally(() => {
      this.#question = undefined;
    });
    if (!(await this.#question)) throw refusal;
    this.#confirmed = seen;
  }

  async #attempt(
    signal: AbortSignal | undefined,
  ): Promise<{ socket: TLSSocket; verdict: CertificateVerdict }> {
    const { deadline } = this.#options;
    const limit = AbortSignal.timeout(deadline);
    const given = [this.#closing.signal, limit, ...(signal === undefined ? [] : [signal])];
    const stop = AbortSignal.any(given);
    const sockets: Socket[] = [];
    const destroy = () => {
      for (const socket of sockets) socket.destroy();
    };
    stop.addEventListener('abort', destroy);
    try {
      if (stop.aborted) throw abortError(stop);
      const socket = await this.#handshake(sockets);
      return {
        socket,
        verdict: judgeCertificate(socket, this.#confirmed ?? this.#options.fingerprint),
      };
    } catch (error) {
      destroy();
      if (limit.aborted) {
        throw new PbsfsError('timeout', `no connection to ${this.place} within ${deadline} ms`, {
          cause: error,
        });
      }
      throw stop.aborted ? abortError(stop) : translateTransportError(error, this.place);
    } finally {
      stop.removeEventListener('abort', destroy);
    }
  }

  async #handshake(sockets: Socket[]): Promise<TLSSocket> {
    const { port, proxy } = this.#options;
    const next = proxy ?? { host: this.#address, port };
    const raw = net.connect({ host: next.host.replace(/^\[(.*)\]$/, '$1'), port: next.port });
    // Errors are also thrown by what waits; nothing may escape while nobody does.
    raw.on('error', () => {});
    sockets.push(raw);
    await opened(raw, 'connect');
    raw.setNoDelay(true);
    raw.setKeepAlive(true, keepAliveDelay);
    if (proxy !== undefined) await openTunnel(raw, proxy, this.#address, port);
    const socket = tls.connect({
      socket: raw,
      host: this.#address,
      ...(net.isIP(this.#address) === 0 ? { servername: this.#address } : {}),
      ...(this.#context === undefined ? {} : { secureContext: this.#context }),
      // The certificate is judged here, by `judgeCertificate`, and not by Node.
      rejectUnauthorized: false,
    });
    socket.on('error', () => {});
    sockets.push(socket);
    await opened(socket, 'secureConnect');
    return socket;
  }
}

/** Waits for the event; an end without an error is one too. */
async function opened(socket: Socket, event: 'connect' | 'secureConnect'): Promise<void> {
  if ((await firstOf(socket, [event, 'close'])) === event) return;
  throw new PbsfsError('unreachable', 'the connection was closed during the handshake');
}
