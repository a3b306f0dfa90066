/** Everything that `openPbs` needs, gathered from options, environment, PVE's configuration and PBS's client. */
import type { Logger } from '../../log.ts';
import { type ConnectionOptions, resolveConnection } from './connection-settings.ts';
import { type PveStorage, readPveStorage } from './pve-storage.ts';
import { type Environment, readSecret } from './secrets.ts';
import type { PbsSettings } from './settings.ts';
import { readStoredFingerprint, readStoredTicket } from './stored-credentials.ts';
import type { ConfirmFingerprint } from './tls-connector.ts';

export interface PbsOptions extends ConnectionOptions {
  /** Take what is not given otherwise from this storage of a PVE host. */
  readonly pveStorage?: string | undefined;
  /** Another place than `/etc/pve`. */
  readonly pveRoot?: string | undefined;
  /** As the user wrote the repository. */
  readonly name?: string | undefined;
  readonly promptPassword?: ((authId: string) => Promise<string>) | undefined;
  readonly confirmFingerprint?: ConfirmFingerprint | undefined;
  readonly logger?: Logger | undefined;
}

export interface ResolvedPbs {
  readonly settings: PbsSettings;
  /** Encryption key of the PVE storage. */
  readonly keyFile: string | undefined;
}

/** @throws PbsfsError `usage`, `not-found` and `access-denied` (PVE storage), `failed` (a command) */
export async function resolvePbs(options: PbsOptions, env: Environment): Promise<ResolvedPbs> {
  const { name, promptPassword, confirmFingerprint, logger } = options;
  const storage =
    options.pveStorage === undefined
      ? undefined
      : await readPveStorage(options.pveStorage, options.pveRoot);
  const connection =
    storage === undefined
      ? await resolveConnection(options, env)
      : await resolveStorage(storage, options, env);
  const { location, namespace, proxy } = connection;
  const fingerprint = connection.fingerprint ?? (await readStoredFingerprint(location.host, env));
  return {
    keyFile: storage?.keyFile,
    settings: {
      ...location,
      ...{ name, namespace, proxy, fingerprint, promptPassword, confirmFingerprint, logger },
      secret: async () => storage?.secret ?? (await readSecret('PBS_PASSWORD', env)),
      storedTicket: () => readStoredTicket(location, env),
    },
  };
}

/** The storage says where to; what the user names beside it counts more, the environment less. */
async function resolveStorage(
  { location, namespace, fingerprint }: PveStorage,
  options: PbsOptions,
  env: Environment,
): ReturnType<typeof resolveConnection> {
  const { datastore, authId, host, port } = location;
  const given = { datastore, authId, server: host, port: String(port) };
  return await resolveConnection(
    {
      ...given,
      namespace: options.namespace ?? namespace.join('/'),
      fingerprint: options.fingerprint ?? fingerprint,
    },
    env,
  );
}
