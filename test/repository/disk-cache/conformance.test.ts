import { openDatastore } from '../../../src/repository/datastore/datastore.ts';
import { DiskCache } from '../../../src/repository/disk-cache/disk-cache.ts';
import { withDiskCache } from '../../../src/repository/disk-cache/with-disk-cache.ts';
import { withLastListing } from '../../../src/repository/with-last-listing.ts';
import { repositorySuite } from '../../conformance/repository-suite.ts';
import { goldenStore } from '../../support/golden.ts';
import { temporaryDirectory } from '../../transfer/support/temporary-directory.ts';

/** What one check keeps, the next one finds. */
const directory = temporaryDirectory();
process.on('exit', () => directory[Symbol.dispose]());

repositorySuite('datastore behind a disk cache', async () => {
  const logger = () => {};
  const cache = await DiskCache.open({ directory: directory.path, maxBytes: 2 ** 30, logger });
  const datastore = withLastListing(await openDatastore(goldenStore), { logger });
  const repository = withDiskCache(datastore, cache);
  return { repository, [Symbol.asyncDispose]: () => repository[Symbol.asyncDispose]() };
});
