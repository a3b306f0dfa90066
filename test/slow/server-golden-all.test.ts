/** Every golden archive through a mount of a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { goldenPassphrase, goldenStore } from '../support/golden.ts';
import { goldenKeyArgs } from '../support/golden-mount.ts';
import { assertArchives, assertSums, shownArchives, shownFiles } from '../support/golden-shown.ts';
import { PbsServer } from '../support/pbs-server/server.ts';
import { needs } from '../support/requirements.ts';
import { mountServer } from '../support/server-mount.ts';

test('a mount of a server with 20 ms of latency shows all that the real client restored', {
  skip: needs('golden', 'fuse', 'root', 'python3'),
}, async () => {
  await using server = await PbsServer.start({ directory: goldenStore, link: { latency: 10 } });
  const env = { PBS_ENCRYPTION_PASSWORD: goldenPassphrase };
  await using mount = await mountServer(server, goldenKeyArgs, { env });
  await assertSums(mount, shownFiles());
  await assertArchives(mount, shownArchives());
  assert.equal(mount.served.stderr, '');
});
