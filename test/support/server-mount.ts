/** The command line and mounts against the test server, by several logins. */

import { startMount, temporaryMountPoint } from '../cli/mounted.ts';
import { type CliResult, runCli } from '../cli/run-cli.ts';
import { StoreMount } from './golden-mount.ts';
import type { Account } from './pbs-server/access.ts';
import { type PbsServer, testPassword, testUser } from './pbs-server/server.ts';

const reader = ['Datastore.Audit', 'Datastore.Read', 'Datastore.Verify'];
const root = '/datastore/store1';

/** Who logs in: a user by password, and tokens that may see everything, one namespace, and nothing. */
export const logins = {
  user: { authId: testUser, secret: testPassword, acl: { [root]: reader } },
  token: { authId: `${testUser}!all`, secret: 'secret-of-all', acl: { [root]: reader } },
  ns1: { authId: `${testUser}!ns1`, secret: 'secret-of-ns1', acl: { [`${root}/ns1`]: reader } },
  none: { authId: `${testUser}!none`, secret: 'secret-of-none', acl: {} },
} as const satisfies Record<string, Account>;

type Login = keyof typeof logins;

/** What the environment of a command says of a server. */
export function serverEnvironment(server: PbsServer, login: Login = 'user'): NodeJS.ProcessEnv {
  const { authId, secret } = logins[login];
  return {
    PBS_REPOSITORY: `${authId}@127.0.0.1:${server.port}:${server.store}`,
    PBS_FINGERPRINT: server.fingerprint,
    PBS_PASSWORD: secret,
  };
}

export interface ServerCall {
  readonly login?: Login;
  /** Wins over what the login gives. */
  readonly env?: NodeJS.ProcessEnv;
}

export async function runOnServer(
  server: PbsServer,
  args: readonly string[],
  { login, env }: ServerCall = {},
): Promise<CliResult> {
  return await runCli(args, { env: { ...serverEnvironment(server, login), ...env } });
}

/** @param args of `pbsfs mount`, without repository and directory. */
export async function mountServer(
  server: PbsServer,
  args: readonly string[] = [],
  { login, env }: ServerCall = {},
): Promise<StoreMount> {
  await using resources = new AsyncDisposableStack();
  const point = resources.use(await temporaryMountPoint());
  const environment = { ...serverEnvironment(server, login), ...env };
  const served = resources.use(await startMount([...args, point.path], environment));
  return new StoreMount(point.path, served, resources.move());
}
