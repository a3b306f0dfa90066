/**
 * What `proxmox-backup-client` has stored after a login, read and never written, so that who is logged in
 * there is logged in here.
 *
 *   $XDG_RUNTIME_DIR/proxmox-backup/tickets        {"host":{"user@realm":{"timestamp":…,"ticket":…,"token":…}}}
 *   ~/.config/proxmox-backup/fingerprints          lines of host and fingerprint
 *
 * Whatever is wrong with these files counts as nothing stored.
 *
 * Source: PBS `pbs-client/src/http_client.rs` (load_ticket_info, load_fingerprint).
 */
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Ticket } from './credentials.ts';
import { cookieName } from './login.ts';
import type { PbsLocation } from './repository-string.ts';
import type { Environment } from './secrets.ts';

/** PBS's client uses a ticket until a minute before it ends, and not from a clock five minutes ahead. */
const maxAge = 7200 - 60;
const maxAhead = 300;

/** A ticket for that host and user that is still good. */
export async function readStoredTicket(
  { host, authId }: Pick<PbsLocation, 'host' | 'authId'>,
  env: Environment,
): Promise<Ticket | undefined> {
  const runtime = env['XDG_RUNTIME_DIR'];
  if (runtime === undefined || runtime === '') return undefined;
  const text = await readIfThere(join(runtime, 'proxmox-backup/tickets'));
  const entry = property(property(parseJson(text), host), authId);
  const timestamp = property(entry, 'timestamp');
  const ticket = property(entry, 'ticket');
  if (typeof timestamp !== 'number' || typeof ticket !== 'string') return undefined;
  const age = Date.now() / 1000 - timestamp;
  if (!(age >= -maxAhead && age <= maxAge)) return undefined;
  return { ticket, cookieName, issuedAt: timestamp * 1000 };
}

/** The fingerprint that a user confirmed for that host. */
export async function readStoredFingerprint(
  host: string,
  env: Environment,
): Promise<string | undefined> {
  const config = env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config');
  const text = await readIfThere(join(config, 'proxmox-backup/fingerprints'));
  const lines = text?.split('\n').map((line) => line.trim().split(/\s+/)) ?? [];
  return lines.find(([name]) => name === host)?.[1];
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return undefined;
  }
}

function parseJson(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return undefined;
  }
}

function property(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name];
}
