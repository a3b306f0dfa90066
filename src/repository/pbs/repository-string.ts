/**
 * PBS's repository string, to the letter:
 *
 *   [[auth-id@]host[:port]:]datastore
 *
 *   auth-id    user@realm or user@realm!token; the user may contain `@`      default root@pam
 *   host       DNS name, IPv4, or IPv6 in brackets                           default localhost
 *   port       1 to 5 digits                                                 default 8007
 *
 * Source: PBS `pbs-api-types` (BACKUP_REPO_URL_REGEX) and `pbs-client/src/backup_repo.rs`.
 */
import { isIPv6 } from 'node:net';
import { PbsfsError } from '../../errors.ts';

/** Where a datastore is served, and as whom to log in there. */
export interface PbsLocation {
  /** `user@realm` or `user@realm!token`. */
  readonly authId: string;
  /** An IPv6 address keeps its brackets. */
  readonly host: string;
  readonly port: number;
  readonly datastore: string;
}

export const defaultAuthId = 'root@pam';
export const defaultHost = 'localhost';
export const defaultPort = 8007;

/** Longest string that PBS's schema takes. */
const maxLength = 256;

const safeId = '[A-Za-z0-9_][A-Za-z0-9._\\-]*';
const userId = `[^\\p{White_Space}:/\\x00-\\x1f\\x7f]+@${safeId}`;
const authId = `${userId}(?:!${safeId})?`;
const dnsLabel = '[A-Za-z0-9](?:[A-Za-z0-9\\-]*[A-Za-z0-9])?';
// The name's pattern covers IPv4 addresses too.
const host = `(?:${dnsLabel}\\.)*${dnsLabel}|\\[[0-9A-Fa-f:.]+\\]`;

const repositoryPattern = new RegExp(
  `^(?:(?:(${authId})@)?(${host}):)?(?:(\\d{1,5}):)?(${safeId})$`,
  'u',
);
const authIdPattern = new RegExp(`^${authId}$`, 'u');
const hostPattern = new RegExp(`^(?:${host})$`, 'u');
const datastorePattern = new RegExp(`^${safeId}$`, 'u');
const ipv6Prefix = /^(?:[^@]*@)*[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[^:]+$/;

const form = 'expected [[user@realm[!token]@]host[:port]:]datastore';

function invalid(text: string, why: string): PbsfsError {
  return new PbsfsError('usage', `'${text}' is not a repository: ${why}`);
}

/** A user or token id, as PBS writes it. */
function isAuthId(text: string): boolean {
  return authIdPattern.test(text);
}

/** True for `user@realm!token`. */
export function isTokenId(text: string): boolean {
  return isAuthId(text) && text.includes('!', text.lastIndexOf('@'));
}

/** @throws PbsfsError `usage` for anything that PBS's own client refuses. */
export function parseRepositoryString(text: string): PbsLocation {
  if (text.length > maxLength) {
    throw invalid(`${text.slice(0, 40)}…`, `${text.length} characters, at most ${maxLength}`);
  }
  const match = repositoryPattern.exec(text);
  if (match === null) throw invalid(text, whyNot(text));
  const [, auth = defaultAuthId, name = defaultHost, port, datastore = ''] = match;
  return {
    authId: auth,
    host: parseHost(name),
    port: port === undefined ? defaultPort : parsePort(port),
    datastore,
  };
}

function whyNot(text: string): string {
  if (text === '') return 'it is empty';
  if (ipv6Prefix.test(text) && !text.includes('[')) {
    return 'an IPv6 address stands in brackets, such as [fe80::1]:datastore';
  }
  const lastColon = text.lastIndexOf(':');
  if (lastColon < 0 && text.includes('@')) return `a user needs a host: ${form}`;
  return form;
}

/**
 * A host given on its own; a bare IPv6 address gets its brackets.
 * @throws PbsfsError `usage`
 */
export function parseHost(text: string): string {
  const name = isIPv6(text) && !text.includes('%') ? `[${text}]` : text;
  const address = name.startsWith('[') ? name.slice(1, -1) : undefined;
  if (!hostPattern.test(name) || (address !== undefined && !isIPv6(address))) {
    throw new PbsfsError('usage', `'${text}' is neither a host name nor an IP address`);
  }
  return name;
}

/** @throws PbsfsError `usage` */
export function parsePort(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535) {
    throw new PbsfsError('usage', `'${text}' is not a port: expected a number up to 65535`);
  }
  return port;
}

/** @throws PbsfsError `usage` */
export function parseAuthId(text: string): string {
  if (!isAuthId(text)) {
    throw new PbsfsError('usage', `'${text}' is no user or token: expected user@realm[!token]`);
  }
  return text;
}

/** @throws PbsfsError `usage` */
export function parseDatastoreName(text: string): string {
  if (!datastorePattern.test(text)) {
    throw new PbsfsError('usage', `'${text}' is not the name of a datastore`);
  }
  return text;
}

/** The string that parses to `location`, without a port that is the default. */
export function formatRepositoryString(location: PbsLocation): string {
  const port = location.port === defaultPort ? '' : `:${location.port}`;
  return `${location.authId}@${location.host}${port}:${location.datastore}`;
}
