import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { resolvePbs } from '../../../src/repository/pbs/from-environment.ts';
import { openPbs } from '../../../src/repository/pbs/pbs-repository.ts';
import { temporaryDatastore } from '../../support/encode-datastore.ts';
import { PbsServer, testPassword, testUser } from '../../support/pbs-server/server.ts';

test('who is logged in with proxmox-backup-client is logged in here', async (t) => {
  using store = temporaryDatastore();
  await using server = await PbsServer.start({ directory: store.path });
  const folder = mkdtempSync(join(tmpdir(), 'pbsfs-xdg-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'proxmox-backup'));
  const ticket = server.access.login(testUser, testPassword);
  const timestamp = Math.floor(Date.now() / 1000);
  const tickets = { '127.0.0.1': { [testUser]: { timestamp, ticket, token: 'csrf' } } };
  writeFileSync(join(folder, 'proxmox-backup/tickets'), JSON.stringify(tickets));
  const known = `127.0.0.1 ${server.fingerprint.toLowerCase()}\n`;
  writeFileSync(join(folder, 'proxmox-backup/fingerprints'), known);
  const env = {
    PBS_REPOSITORY: server.repository,
    XDG_RUNTIME_DIR: folder,
    XDG_CONFIG_HOME: folder,
  };
  const { settings, keyFile } = await resolvePbs({}, env);
  assert.equal(keyFile, undefined);
  await using repository = await openPbs(settings);
  assert.equal(repository.name, server.repository);
  assert.deepEqual(await repository.listGroups([]), []);
  assert.equal(server.count('login'), 0);
});

test('a password of the environment counts more than a stored ticket', async () => {
  using store = temporaryDatastore();
  await using server = await PbsServer.start({ directory: store.path });
  const env = {
    PBS_REPOSITORY: server.repository,
    PBS_FINGERPRINT: server.fingerprint,
    PBS_PASSWORD: `${testPassword}\nsecond line`,
  };
  const { settings } = await resolvePbs({}, env);
  await using repository = await openPbs(settings);
  await repository.status();
  assert.equal(server.count('login'), 1);
});
