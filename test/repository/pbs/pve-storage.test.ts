import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { resolvePbs } from '../../../src/repository/pbs/from-environment.ts';
import { readPveStorage } from '../../../src/repository/pbs/pve-storage.ts';
import { expectError } from '../../support/expect-error.ts';

const config = `# a comment
dir: local
\tpath /var/lib/vz
\tcontent iso,vztmpl,backup

pbs: full
\tdatastore store1
\tserver pbs.example
\tcontent backup
\tencryption-key a1:b2
\tfingerprint AA:BB:CC
\tnamespace customers/a
\tport 8008
\tprune-backups keep-all=1
\tusername backup@pbs!pve
\tdisable

pbs: small
        datastore store2
        server fe80::2

pbs: broken
\tserver h

nfs: full2
\tserver nas
\texport /x
`;

suite('a PBS storage of a PVE host', () => {
  let root: string;

  before(() => {
    root = mkdtempSync(join(tmpdir(), 'pbsfs-pve-'));
    mkdirSync(join(root, 'priv/storage'), { recursive: true });
    writeFileSync(join(root, 'storage.cfg'), config);
    writeFileSync(join(root, 'priv/storage/full.pw'), 'secret\nsecond line\n');
    writeFileSync(join(root, 'priv/storage/full.enc'), '{}');
  });
  after(() => rmSync(root, { recursive: true }));

  test('brings everything that it has configured', async () => {
    assert.deepEqual(await readPveStorage('full', root), {
      location: {
        authId: 'backup@pbs!pve',
        host: 'pbs.example',
        port: 8008,
        datastore: 'store1',
      },
      namespace: ['customers', 'a'],
      fingerprint: 'AA:BB:CC',
      secret: 'secret',
      keyFile: join(root, 'priv/storage/full.enc'),
    });
  });

  test('has the defaults of PVE for what is not configured', async () => {
    assert.deepEqual(await readPveStorage('small', root), {
      location: { authId: 'root@pam', host: '[fe80::2]', port: 8007, datastore: 'store2' },
      namespace: [],
      fingerprint: undefined,
      secret: undefined,
      keyFile: undefined,
    });
  });

  test('is refused by name where it is absent, of another type, or incomplete', async () => {
    await assert.rejects(readPveStorage('absent', root), expectError('not-found', /full, small/));
    await assert.rejects(readPveStorage('local', root), expectError('not-found'));
    await assert.rejects(readPveStorage('full2', root), expectError('not-found'));
    await assert.rejects(readPveStorage('broken', root), expectError('usage'));
    await assert.rejects(readPveStorage('../x', root), expectError('usage'));
    await assert.rejects(readPveStorage('full', join(root, 'nowhere')), expectError('not-found'));
  });

  test('counts more than the environment and less than what is named beside it', async () => {
    const env = {
      PBS_PASSWORD: 'env',
      PBS_FINGERPRINT: 'EE',
      PBS_REPOSITORY: 'x:y',
      PBS_NAMESPACE: 'z',
    };
    const { settings, keyFile } = await resolvePbs({ pveStorage: 'full', pveRoot: root }, env);
    assert.equal(settings.host, 'pbs.example');
    assert.equal(settings.fingerprint, 'AA:BB:CC');
    assert.deepEqual(settings.namespace, ['customers', 'a']);
    assert.equal(await settings.secret(), 'secret');
    assert.equal(keyFile, join(root, 'priv/storage/full.enc'));
    const options = { pveStorage: 'small', pveRoot: root, namespace: 'n', fingerprint: 'FF' };
    const given = await resolvePbs(options, env);
    assert.deepEqual(given.settings.namespace, ['n']);
    assert.equal(given.settings.fingerprint, 'FF');
    assert.equal(await given.settings.secret(), 'env');
  });
});
