import { openDatastore } from '../../../src/repository/datastore/datastore.ts';
import { repositorySuite } from '../../conformance/repository-suite.ts';
import { goldenStore } from '../../support/golden.ts';

repositorySuite('datastore', async () => {
  const repository = await openDatastore(goldenStore);
  return { repository, [Symbol.asyncDispose]: () => repository[Symbol.asyncDispose]() };
});
