/** The conformance suite over the test server: with a password, and with a token behind `withRetry`. */

import { openPbs } from '../../src/repository/pbs/pbs-repository.ts';
import { parseRepositoryString } from '../../src/repository/pbs/repository-string.ts';
import type { Repository } from '../../src/repository/repository.ts';
import { withRetry } from '../../src/repository/with-retry.ts';
import { type OpenedRepository, repositorySuite } from '../conformance/repository-suite.ts';
import { goldenStore } from '../support/golden.ts';
import { allRights } from '../support/pbs-server/access.ts';
import { PbsServer, testPassword } from '../support/pbs-server/server.ts';

async function openOverServer(
  wrap: (repository: Repository) => Repository,
  authId?: string,
): Promise<OpenedRepository> {
  const accounts =
    authId === undefined
      ? undefined
      : [{ authId, secret: testPassword, acl: { '/datastore/store1': allRights } }];
  const server = await PbsServer.start({
    directory: goldenStore,
    ...(accounts === undefined ? {} : { accounts }),
  });
  const location = parseRepositoryString(server.repository);
  const repository = wrap(
    await openPbs({
      ...location,
      authId: authId ?? location.authId,
      fingerprint: server.fingerprint,
      secret: async () => testPassword,
    }),
  );
  return {
    repository,
    async [Symbol.asyncDispose]() {
      await repository[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

repositorySuite('pbs with a ticket', () => openOverServer((repository) => repository));
repositorySuite('pbs with a token and retries', () =>
  openOverServer(withRetry, 'reader@pbs!mount'),
);
