/** The conformance suite over the test server, with a password and with a token. */

import { openPbs } from '../../src/repository/pbs/pbs-repository.ts';
import { parseRepositoryString } from '../../src/repository/pbs/repository-string.ts';
import { type OpenedRepository, repositorySuite } from '../conformance/repository-suite.ts';
import { goldenStore } from '../support/golden.ts';
import { allRights } from '../support/pbs-server/access.ts';
import { PbsServer, testPassword } from '../support/pbs-server/server.ts';

async function openOverServer(authId?: string): Promise<OpenedRepository> {
  const accounts =
    authId === undefined
      ? undefined
      : [{ authId, secret: testPassword, acl: { '/datastore/store1': allRights } }];
  const server = await PbsServer.start({
    directory: goldenStore,
    ...(accounts === undefined ? {} : { accounts }),
  });
  const location = parseRepositoryString(server.repository);
  const repository = await openPbs({
    ...location,
    authId: authId ?? location.authId,
    fingerprint: server.fingerprint,
    secret: async () => testPassword,
  });
  return {
    repository,
    async [Symbol.asyncDispose]() {
      await repository[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

repositorySuite('pbs with a ticket', () => openOverServer());
repositorySuite('pbs with a token', () => openOverServer('reader@pbs!mount'));
