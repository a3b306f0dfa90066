/**
 * A PBS storage as a Proxmox VE host has it configured:
 *
 *   storage.cfg                pbs: ID
 *                                  server pbs.example
 *                                  datastore store1
 *                                  username backup@pbs!token         default root@pam
 *                                  port, namespace, fingerprint      optional
 *   priv/storage/ID.pw         password or token secret, first line
 *   priv/storage/ID.enc        encryption key file, where one is set
 *
 * Source: PVE `PVE/Storage/PBSPlugin.pm` and the section format of `PVE/SectionConfig.pm`.
 */
import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PbsfsError } from '../../errors.ts';
import { type Namespace, parseNamespace } from '../../formats/snapshot-path.ts';
import {
  defaultAuthId,
  defaultPort,
  type PbsLocation,
  parseAuthId,
  parseDatastoreName,
  parseHost,
  parsePort,
} from './repository-string.ts';

export interface PveStorage {
  readonly location: PbsLocation;
  readonly namespace: Namespace;
  readonly fingerprint: string | undefined;
  /** Password or token secret; undefined where there is no such file. */
  readonly secret: string | undefined;
  /** Path of the encryption key; undefined where there is none. */
  readonly keyFile: string | undefined;
}

const defaultRoot = '/etc/pve';
const storageId = /^[A-Za-z][A-Za-z0-9._-]*$/;
const sectionHead = /^([^\s#:]+):\s*(\S+)\s*$/;
const fieldLine = /^\s+([^\s#]\S*)(?:\s+(.*?))?\s*$/;

/**
 * @param root of PVE's configuration.
 * @throws PbsfsError `not-found` for a storage that is not configured or no PBS; `access-denied`; `usage` for
 * values that cannot be right
 */
export async function readPveStorage(id: string, root: string = defaultRoot): Promise<PveStorage> {
  // It becomes a part of paths.
  if (!storageId.test(id)) throw new PbsfsError('usage', `'${id}' is no name of a PVE storage`);
  const config = join(root, 'storage.cfg');
  const text = await readText(config);
  if (text === undefined) {
    throw new PbsfsError('not-found', 'does not exist', {
      context: { path: config },
      hint: '--pve-storage works on a Proxmox VE host',
    });
  }
  const fields = pbsSection(text, id, config);
  const secrets = join(root, 'priv/storage');
  const password = await readText(join(secrets, `${id}.pw`));
  const keyFile = join(secrets, `${id}.enc`);
  return {
    location: locationOf(fields, id),
    namespace: parseNamespace(fields.get('namespace') ?? ''),
    fingerprint: fields.get('fingerprint'),
    secret: password?.split(/\r?\n/, 1)[0],
    keyFile: (await isThere(keyFile)) ? keyFile : undefined,
  };
}

function locationOf(fields: ReadonlyMap<string, string>, id: string): PbsLocation {
  const [server, datastore, port] = ['server', 'datastore', 'port'].map((name) => fields.get(name));
  if (server === undefined || datastore === undefined) {
    throw new PbsfsError('usage', `storage '${id}' of PVE names no server or no datastore`);
  }
  return {
    authId: parseAuthId(fields.get('username') ?? defaultAuthId),
    host: parseHost(server),
    port: port === undefined ? defaultPort : parsePort(port),
    datastore: parseDatastoreName(datastore),
  };
}

function pbsSection(text: string, id: string, path: string): ReadonlyMap<string, string> {
  const storages = parseSections(text).filter((section) => section.type === 'pbs');
  const found = storages.find((section) => section.id === id);
  if (found !== undefined) return found.fields;
  const names = storages.map((section) => section.id).join(', ');
  const known = names === '' ? 'none is' : `there are ${names}`;
  throw new PbsfsError('not-found', `no storage '${id}' of type pbs is configured: ${known}`, {
    context: { path },
  });
}

interface Section {
  readonly type: string;
  readonly id: string;
  readonly fields: Map<string, string>;
}

/** `type: id`, then indented lines of name and value. What fits neither form is passed over. */
function parseSections(text: string): readonly Section[] {
  const sections: Section[] = [];
  for (const line of text.split(/\r?\n/)) {
    const [, type, id] = sectionHead.exec(line) ?? [];
    if (type !== undefined && id !== undefined) sections.push({ type, id, fields: new Map() });
    const [, name, value = ''] = fieldLine.exec(line) ?? [];
    if (name !== undefined) sections.at(-1)?.fields.set(name, value);
  }
  return sections;
}

async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new PbsfsError('access-denied', `cannot be read (${code})`, {
      context: { path },
      cause,
      hint: "PVE's storage passwords can only be read by root",
    });
  }
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
