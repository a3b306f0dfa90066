import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyRing } from '../../src/archives/key-ring.ts';
import { silentLogger } from '../../src/log.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import { openBackupTree } from '../../src/tree/backup-tree.ts';
import { resolvePath } from '../../src/tree/resolve.ts';
import { parseTreePath } from '../../src/tree/tree-path.ts';
import { countingRepository } from '../support/counting-repository.ts';
import { temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';

test('the attributes that ls -l asks of a snapshot cost no request', async () => {
  using store = temporaryDatastore();
  const blobs = { 'qemu-server.conf': Buffer.from('cores: 2\n') };
  const { path } = writeSnapshot(store.path, { group: 'vm/100', time: 1_700_000_000, blobs });
  const counting = countingRepository(await openDatastore(store.path));
  await using tree = openBackupTree(counting.repository, {
    keys: new KeyRing(),
    cacheChunks: 1,
    concurrency: 1,
    logger: silentLogger,
  });
  const { node } = await resolvePath(tree, parseTreePath(path));
  counting.reset();
  await node.attributes();
  for (const name of ['security.selinux', 'system.posix_acl_access', 'user.pbsfs', 'user']) {
    assert.deepEqual(await node.xattrs?.(undefined, Buffer.from(name)), []);
  }
  assert.equal(counting.calls.length, 0);
  const wanted = await node.xattrs?.(undefined, Buffer.from('user.pbs.crypt-mode'));
  assert.ok(wanted?.some(({ name }) => name.toString() === 'user.pbs.crypt-mode'));
  assert.equal(counting.count('describeSnapshot'), 1);
});
