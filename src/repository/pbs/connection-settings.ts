/**
 * Where to connect to, from options and environment, in PBS's order:
 *
 *   an option for the whole repository    is used alone
 *   else options for its parts            merged field by field with PBS_SERVER, PBS_PORT, PBS_DATASTORE and
 *                                         PBS_AUTH_ID; PBS_REPOSITORY is ignored
 *   else PBS_REPOSITORY                   is used alone
 *   else PBS_SERVER, PBS_PORT, …          of which PBS_DATASTORE is needed
 *
 * Source: PBS 4 `pbs-client/src/tools/mod.rs`.
 */
import { PbsfsError } from '../../errors.ts';
import { type Namespace, parseNamespace } from '../../formats/snapshot-path.ts';
import { type ProxySettings, parseProxy } from './proxy.ts';
import {
  defaultAuthId,
  defaultHost,
  defaultPort,
  type PbsLocation,
  parseAuthId,
  parseDatastoreName,
  parseHost,
  parsePort,
  parseRepositoryString,
} from './repository-string.ts';
import { type Environment, readSecret } from './secrets.ts';

export interface ConnectionOptions {
  readonly repository?: string | undefined;
  readonly server?: string | undefined;
  readonly port?: string | undefined;
  readonly datastore?: string | undefined;
  readonly authId?: string | undefined;
  readonly namespace?: string | undefined;
  readonly fingerprint?: string | undefined;
}

export interface Connection {
  readonly location: PbsLocation;
  readonly namespace: Namespace;
  readonly fingerprint: string | undefined;
  readonly proxy: ProxySettings | undefined;
}

const parts = ['server', 'port', 'datastore', 'authId'] as const;
const variables = {
  server: 'PBS_SERVER',
  port: 'PBS_PORT',
  datastore: 'PBS_DATASTORE',
  authId: 'PBS_AUTH_ID',
} as const;

/** @throws PbsfsError `usage` for what cannot be parsed, for contradictions, or where nothing names a datastore */
export async function resolveConnection(
  options: ConnectionOptions,
  env: Environment,
): Promise<Connection> {
  const { ALL_PROXY: proxy, PBS_NAMESPACE: namespace } = env;
  return {
    location: await resolveLocation(options, env),
    namespace: parseNamespace(options.namespace ?? namespace ?? ''),
    fingerprint: options.fingerprint ?? (await readSecret('PBS_FINGERPRINT', env)),
    proxy: proxy === undefined || proxy === '' ? undefined : parseProxy(proxy),
  };
}

async function resolveLocation(options: ConnectionOptions, env: Environment): Promise<PbsLocation> {
  const hasParts = parts.some((part) => options[part] !== undefined);
  if (options.repository !== undefined) {
    if (!hasParts) return parseRepositoryString(options.repository);
    throw new PbsfsError('usage', 'a repository and options for its parts exclude each other');
  }
  if (!hasParts) {
    const repository = await readSecret('PBS_REPOSITORY', env);
    if (repository !== undefined) return parseRepositoryString(repository);
  }
  return mergeParts(options, env);
}

function mergeParts(options: ConnectionOptions, env: Environment): PbsLocation {
  const [server, port, datastore, authId] = parts.map(
    (part) => options[part] ?? (env[variables[part]] || undefined),
  );
  if (datastore === undefined) {
    throw new PbsfsError('usage', 'no repository is given', {
      hint: 'name one, or set PBS_REPOSITORY to user@realm!token@host:datastore',
    });
  }
  return {
    authId: authId === undefined ? defaultAuthId : parseAuthId(authId),
    host: server === undefined ? defaultHost : parseHost(server),
    port: port === undefined ? defaultPort : parsePort(port),
    datastore: parseDatastoreName(datastore),
  };
}
