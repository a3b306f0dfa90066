import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveConnection } from '../../../src/repository/pbs/connection-settings.ts';
import { formatRepositoryString } from '../../../src/repository/pbs/repository-string.ts';
import { expectError } from '../../support/expect-error.ts';

async function resolved(options: object, env: Record<string, string>): Promise<string> {
  return formatRepositoryString((await resolveConnection(options, env)).location);
}

test('options and environment are merged in the order of PBS', async () => {
  const parts = {
    PBS_SERVER: 'env.example',
    PBS_PORT: '9000',
    PBS_DATASTORE: 'envstore',
    PBS_AUTH_ID: 'env@pbs!t',
  };
  const whole = { PBS_REPOSITORY: 'u@pbs@whole:store' };
  assert.equal(await resolved({ repository: 'h:s' }, { ...parts, ...whole }), 'root@pam@h:s');
  assert.equal(await resolved({}, { ...parts, ...whole }), 'u@pbs@whole:store');
  assert.equal(await resolved({}, parts), 'env@pbs!t@env.example:9000:envstore');
  assert.equal(await resolved({}, { PBS_DATASTORE: 's' }), 'root@pam@localhost:s');
  assert.equal(
    await resolved({ server: 'fe80::1' }, { ...parts, ...whole }),
    'env@pbs!t@[fe80::1]:9000:envstore',
  );
  assert.equal(await resolved({ datastore: 'd', port: '1' }, {}), 'root@pam@localhost:1:d');
});

test('what contradicts itself or names no datastore is a usage error', async () => {
  const rows: readonly [object, Record<string, string>][] = [
    [{}, {}],
    [{ server: 'h' }, { PBS_REPOSITORY: 'h:s' }],
    [{ repository: 'h:s', server: 'h' }, {}],
    [{}, { PBS_DATASTORE: 'a/b' }],
    [{}, { PBS_DATASTORE: 's', PBS_PORT: 'many' }],
    [{}, { PBS_DATASTORE: 's', PBS_AUTH_ID: 'nobody' }],
    [{}, { PBS_REPOSITORY: '' }],
  ];
  for (const [options, env] of rows) {
    await assert.rejects(resolveConnection(options, env), expectError('usage'));
  }
});

test('namespace, fingerprint and proxy come from options first, then from the environment', async () => {
  const env = {
    PBS_REPOSITORY: 'h:s',
    PBS_NAMESPACE: 'a/b',
    PBS_FINGERPRINT: 'AA:BB\ncomment',
    ALL_PROXY: 'proxy:3128',
  };
  const fromEnv = await resolveConnection({}, env);
  assert.deepEqual(fromEnv.namespace, ['a', 'b']);
  assert.equal(fromEnv.fingerprint, 'AA:BB');
  assert.deepEqual(fromEnv.proxy, { host: 'proxy', port: 3128, credentials: undefined });
  const given = await resolveConnection(
    { namespace: 'c', fingerprint: 'CC' },
    { ...env, ALL_PROXY: '' },
  );
  assert.deepEqual(given.namespace, ['c']);
  assert.equal(given.fingerprint, 'CC');
  assert.equal(given.proxy, undefined);
});
