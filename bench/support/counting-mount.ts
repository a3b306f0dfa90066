/**
 * A program that mounts a datastore directory as `pbsfs mount` does, and counts what that takes:
 *
 *   node counting-mount.ts STORE DIR FILE
 *
 * Prints a line when the mount answers. When it is unmounted it writes to FILE, as JSON, how many requests the kernel
 * has made and how many chunks were read from the datastore.
 */
import { writeFileSync } from 'node:fs';
import { KeyRing } from '../../src/archives/key-ring.ts';
import { createKernelDriver } from '../../src/fuse/kernel/kernel-driver.ts';
import { loadLibc } from '../../src/fuse/kernel/libc.ts';
import { readRequests, watchRequests } from '../../src/fuse/kernel/request-source.ts';
import { silentLogger } from '../../src/log.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import { openBackupTree } from '../../src/tree/backup-tree.ts';
import { countingRepository } from '../../test/support/counting-repository.ts';

const [store, mountPoint, file] = process.argv.slice(2);
if (store === undefined || mountPoint === undefined || file === undefined) {
  throw new Error('usage: counting-mount.ts STORE DIR FILE');
}
const counting = countingRepository(await openDatastore(store));
await using tree = openBackupTree(counting.repository, {
  keys: new KeyRing(),
  logger: silentLogger,
  // The defaults of `pbsfs mount`.
  cacheChunks: 64,
  concurrency: 8,
});
const openSource = await loadLibc().then(watchRequests, () => readRequests(2));
let requests = 0;
const driver = createKernelDriver((device, onRequest) =>
  openSource(device, (bytes) => {
    requests++;
    onRequest(bytes);
  }),
);
const mount = await driver.mount(tree.root, mountPoint, {
  source: 'counting',
  logger: silentLogger,
  capacity: (signal) => counting.repository.status(signal),
});
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => void mount.unmount({ lazy: true }));
}
console.log(`mounted ${store} at ${mountPoint}`);
await mount.done;
writeFileSync(file, JSON.stringify({ requests, chunks: counting.count('readChunk') }));
