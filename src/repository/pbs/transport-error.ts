/**
 * Failures of the network in the project's words: the one place where errors of sockets, TLS, undici and
 * HTTP/2 are translated. `unreachable` and `timeout` are what another try may mend.
 */
import { PbsfsError, toPbsfsError } from '../../errors.ts';

const resolverCodes = ['ENOTFOUND', 'EAI_AGAIN', 'EAI_NODATA', 'EAI_FAIL'];
const timeoutCodes = [
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
];

/** What happened, for codes that a user meets often. */
const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there (connection refused)',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was reset',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'the network is unreachable',
  UND_ERR_SOCKET: 'the connection was closed',
};

/** Codes of TLS: OpenSSL's own, and that of a peer which speaks something else. */
const tlsCode = /^(ERR_SSL_|ERR_TLS_|EPROTO$)/;
/** Something was written to a connection that had ended. */
const socketCode = /^ERR_(STREAM|SOCKET)_/;
const http2Code = /^ERR_HTTP2_/;
/** undici's parser: the peer speaks no HTTP, or broke off in the middle of it. */
const httpCode = /^(HPE_|UND_ERR_)/;

/**
 * @param place `host:port`, for the message.
 */
export function translateTransportError(error: unknown, place: string): PbsfsError {
  const known = toPbsfsError(error);
  if (known.code !== 'bug' || !(error instanceof Error)) return known;
  const cause = innermost(error);
  const code = (cause as NodeJS.ErrnoException).code ?? '';
  if (resolverCodes.includes(code)) {
    return new PbsfsError('unreachable', `the name of ${place} cannot be resolved (${code})`, {
      cause: error,
      hint: 'check the host name, and the name servers of this machine',
    });
  }
  if (timeoutCodes.includes(code)) {
    return new PbsfsError('timeout', `${place} did not answer in time (${code})`, { cause: error });
  }
  if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED') {
    return new PbsfsError('aborted', 'the repository was closed', { cause: error });
  }
  if (tlsCode.test(code)) {
    return new PbsfsError('unreachable', `${place} does not speak TLS as expected (${code})`, {
      cause: error,
      hint: 'check the port: PBS listens on 8007',
    });
  }
  const reason = reasons[code] ?? otherReason(code);
  if (reason === undefined) return known;
  const hint = 'check host and port, and that the server runs: PBS listens on 8007';
  return new PbsfsError('unreachable', `${place}: ${reason}`, {
    cause: error,
    ...(code === 'ECONNREFUSED' ? { hint } : {}),
  });
}

/** Several addresses were tried, or a library wrapped what the socket said. */
function innermost(error: Error): Error {
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return error.errors[0];
  const { cause } = error;
  return 'code' in error || !(cause instanceof Error) ? error : innermost(cause);
}

function otherReason(code: string): string | undefined {
  if (socketCode.test(code)) return 'the connection was closed';
  if (http2Code.test(code)) return `the HTTP/2 session broke off (${code})`;
  if (httpCode.test(code)) return `the answer broke off or is no HTTP (${code})`;
  return /^E[A-Z]+$/.test(code) ? `the connection failed (${code})` : undefined;
}
