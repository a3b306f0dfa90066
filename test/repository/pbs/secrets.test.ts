import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { inspect } from 'node:util';
import { formatError } from '../../../src/errors.ts';
import { readSecret, type SecretName } from '../../../src/repository/pbs/secrets.ts';
import { expectError } from '../../support/expect-error.ts';

suite('secrets of the environment', () => {
  let folder: string;
  const file = (name: string, content: string | Buffer): string => {
    const path = join(folder, name);
    writeFileSync(path, content);
    return path;
  };

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'pbsfs-secrets-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  test('the first that is defined counts: value, descriptor, file, command, credential', async () => {
    const names: readonly SecretName[] = [
      'PBS_PASSWORD',
      'PBS_ENCRYPTION_PASSWORD',
      'PBS_REPOSITORY',
      'PBS_FINGERPRINT',
    ];
    const credentials = ['password', 'encryption-password', 'repository', 'fingerprint'];
    for (const [i, name] of names.entries()) {
      const path = file('from-file', 'file');
      const fd = openSync(file('from-fd', 'fd'), 'r');
      file(`proxmox-backup-client.${credentials[i]}`, 'credential');
      const all = {
        [name]: 'value',
        [`${name}_FD`]: String(fd),
        [`${name}_FILE`]: path,
        [`${name}_CMD`]: 'echo command',
        CREDENTIALS_DIRECTORY: folder,
        PATH: process.env['PATH'],
      };
      const expected = ['value', 'fd', 'file', 'command', 'credential'];
      const keys = Object.keys(all);
      for (const [from, value] of expected.entries()) {
        const env = Object.fromEntries(keys.slice(from).map((key) => [key, all[key]]));
        assert.equal(await readSecret(name, env), value);
      }
      closeSync(fd);
    }
    assert.equal(await readSecret('PBS_PASSWORD', {}), undefined);
    assert.equal(
      await readSecret('PBS_PASSWORD', { CREDENTIALS_DIRECTORY: '/nowhere' }),
      undefined,
    );
  });

  test('only the first line counts, whatever characters it has', async () => {
    const rows: readonly [string, string][] = [
      ['secret', 'secret'],
      ['secret\n', 'secret'],
      ['secret\r\n', 'secret'],
      ['secret\ncomment\n', 'secret'],
      ['\nsecond', ''],
      ['', ''],
      [` +&%=#"'$! äöü€ `, ` +&%=#"'$! äöü€ `],
      ['a\rb', 'a\rb'],
    ];
    for (const [content, expected] of rows) {
      assert.equal(await readSecret('PBS_PASSWORD', { PBS_PASSWORD: content }), expected);
      const path = file('lines', content);
      assert.equal(await readSecret('PBS_PASSWORD', { PBS_PASSWORD_FILE: path }), expected);
      const command = { PBS_PASSWORD_CMD: `cat '${path}'`, PATH: process.env['PATH'] };
      assert.equal(await readSecret('PBS_PASSWORD', command), expected);
    }
  });

  test('a passphrase from a systemd credential is taken whole, a password is not', async () => {
    file('proxmox-backup-client.encryption-password', 'two\nlines\n');
    file('proxmox-backup-client.password', 'one\n');
    const env = { CREDENTIALS_DIRECTORY: folder };
    assert.equal(await readSecret('PBS_ENCRYPTION_PASSWORD', env), 'two\nlines\n');
    assert.equal(await readSecret('PBS_PASSWORD', env), 'one');
  });

  test('what is defined and cannot be used is an error, and no reason to look further', async () => {
    const bad = file('bad', Buffer.from([0x66, 0xff]));
    const path = file('good', 'good');
    const rows: readonly Record<string, string>[] = [
      { PBS_PASSWORD_FD: 'three' },
      { PBS_PASSWORD_FD: '-1' },
      { PBS_PASSWORD_FD: '9999' },
      { PBS_PASSWORD_FILE: '/nowhere/at/all' },
      { PBS_PASSWORD_FILE: folder },
      { PBS_PASSWORD_FILE: bad },
      { PBS_PASSWORD_FILE: '/dev/zero' },
      { PBS_PASSWORD_CMD: '' },
      { PBS_PASSWORD_CMD: `echo 'unclosed` },
    ];
    for (const row of rows) {
      const env = {
        ...row,
        ...('PBS_PASSWORD_CMD' in row ? {} : { PBS_PASSWORD_CMD: `cat ${path}` }),
      };
      await assert.rejects(readSecret('PBS_PASSWORD', env), expectError('usage'), inspect(row));
    }
  });

  test('a command that fails is an error which does not show the command', async () => {
    const env = { PATH: process.env['PATH'] };
    for (const command of ['false hunter2', '/nowhere/hunter2', 'sh -c "kill -9 $$; hunter2"']) {
      const failed = readSecret('PBS_PASSWORD', { ...env, PBS_PASSWORD_CMD: command });
      await assert.rejects(failed, (error) => {
        assert.doesNotMatch(formatError(error), /hunter2/);
        return expectError('failed', /PBS_PASSWORD_CMD/)(error);
      });
    }
  });
});
