/**
 * `ALL_PROXY` as PBS reads it, and the way through such a proxy:
 *
 *   [http://][user:password@]host[:port]      port 1080 unless given; HTTP CONNECT only
 *
 * Source: PBS `proxmox-http/src/proxy_config.rs`.
 */
import net, { type Socket } from 'node:net';
import { PbsfsError } from '../../errors.ts';
import { readHttpHead } from './http-head.ts';
import { parseHost, parsePort } from './repository-string.ts';

export interface ProxySettings {
  /** An IPv6 address keeps its brackets. */
  readonly host: string;
  readonly port: number;
  /** `user:password`, already percent-decoded. */
  readonly credentials: string | undefined;
}

/** PBS's default, that of SOCKS, though it speaks HTTP. */
const defaultProxyPort = 1080;

const proxyPattern =
  /^(?:([a-z][a-z0-9+.-]*):\/\/)?(?:([^@/]*)@)?(\[[^\]]*\]|[^:/@]+)(?::(\d+))?\/?$/i;

/**
 * @throws PbsfsError `usage`; the message never shows the text, which may hold a password.
 */
export function parseProxy(text: string): ProxySettings {
  const match = proxyPattern.exec(text);
  if (match === null) {
    throw new PbsfsError('usage', 'ALL_PROXY is not [http://][user:password@]host[:port]');
  }
  const [, scheme = 'http', user, host = '', port] = match;
  if (scheme.toLowerCase() !== 'http') {
    throw new PbsfsError('usage', `ALL_PROXY names the protocol '${scheme}', only http is known`);
  }
  return {
    host: parseHost(host),
    port: port === undefined ? defaultProxyPort : parsePort(port),
    credentials: user === undefined ? undefined : decodeCredentials(user),
  };
}

function decodeCredentials(user: string): string {
  try {
    return decodeURIComponent(user);
  } catch (cause) {
    throw new PbsfsError('usage', 'user or password in ALL_PROXY is not percent-encoded', {
      cause,
    });
  }
}

/**
 * Asks the proxy behind a connected `socket` for a tunnel to `host:port`. Bytes that came behind the
 * answer are put back into the socket.
 * @throws PbsfsError `unreachable`, `access-denied`
 */
export async function openTunnel(
  socket: Socket,
  proxy: ProxySettings,
  host: string,
  port: number,
): Promise<void> {
  const target = `${net.isIPv6(host) ? `[${host}]` : host}:${port}`;
  const authorization =
    proxy.credentials === undefined
      ? ''
      : `Proxy-Authorization: Basic ${Buffer.from(proxy.credentials).toString('base64')}\r\n`;
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${authorization}\r\n`);
  const { status } = await readHttpHead(socket);
  if (status === 200) return;
  const place = `proxy ${proxy.host}:${proxy.port}`;
  if (status === 407) {
    throw new PbsfsError('access-denied', `${place} wants a user and password, or others`, {
      hint: 'give them in ALL_PROXY as user:password@host',
    });
  }
  throw new PbsfsError(
    'unreachable',
    `${place} refuses a connection to ${target} with status ${status}`,
  );
}
