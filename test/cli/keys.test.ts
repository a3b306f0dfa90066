/** Which keys a command ends up with, and what it says when it gets none. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { openKeyRing } from '../../src/cli/keys.ts';
import type { Ask } from '../../src/cli/prompt.ts';
import { isPbsfsError } from '../../src/errors.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { silentLogger } from '../../src/log.ts';

/** From the specification: key 00…1f under the passphrase `passphrase`, PBKDF2, salt and IV of zeros. */
const protectedKey = {
  kdf: { PBKDF2: { iter: 65535, salt: Buffer.alloc(32).toString('base64') } },
  created: '2020-07-17T10:33:05+02:00',
  modified: '2020-07-17T10:33:05+02:00',
  data: 'AAAAAAAAAAAAAAAAAAAAAMaCIrPzErtgxxFyFhNTAu8oyZecmSphYXmZnZsnKTBphCc2s2NczlN+b17FnaQrGA==',
};
const key = Buffer.from(Array.from({ length: 32 }, (_, index) => index));
const bareKey = { ...protectedKey, kdf: null, data: key.toString('base64') };
const otherKey = { ...bareKey, data: Buffer.alloc(32, 7).toString('base64') };

const folder = mkdtempSync(join(tmpdir(), 'pbsfs-keys-'));
const path = (name: string): string => join(folder, name);
const environment = { ...process.env };

before(async () => {
  await writeFile(path('bare.json'), JSON.stringify(bareKey));
  await writeFile(path('other.json'), JSON.stringify(otherKey));
  await writeFile(path('protected.json'), JSON.stringify(protectedKey));
  await writeFile(path('broken.json'), '{');
  await writeFile(path('secret'), 'passphrase\nsecond line\n');
});
after(() => rmSync(folder, { recursive: true }));
beforeEach(() => {
  for (const name of Object.keys(process.env)) {
    if (name.startsWith('PBS_')) delete process.env[name];
  }
  process.env['XDG_CONFIG_HOME'] = path('config');
  process.env['XDG_CONFIG_DIRS'] = path('shared');
});
afterEach(() => {
  process.env = { ...environment };
});

async function fingerprints(keyfile: readonly string[], ask?: Ask): Promise<string[]> {
  const ring = await openKeyRing({ keyfile: keyfile.map(path) }, ask, silentLogger);
  return ring.keys().map(({ fingerprint }) => fingerprint.toString('hex'));
}

/** The fingerprint of key 00…1f, from the specification. */
const expected = '0eabd4460b6eb9ca345023dee2b778c790e54a1683b9659c0a57ae199090159b';
const other = new CryptConfig(Buffer.alloc(32, 7)).fingerprint.toString('hex');

test('no key file at all is no error', async () => {
  assert.deepEqual(await fingerprints([]), []);
});

test('several key files are all at hand', async () => {
  assert.deepEqual(await fingerprints(['bare.json', 'other.json']), [expected, other]);
});

test('the passphrase comes from the environment, its first line only', async () => {
  process.env['PBS_ENCRYPTION_PASSWORD_FILE'] = path('secret');
  assert.deepEqual(await fingerprints(['protected.json']), [expected]);
});

test('the passphrase comes from the terminal where the environment has none', async () => {
  const questions: string[] = [];
  const ask: Ask = async ({ text }) => {
    questions.push(text);
    return 'passphrase';
  };
  assert.deepEqual(await fingerprints(['protected.json'], ask), [expected]);
  assert.deepEqual(questions, [`Passphrase for key ${path('protected.json')}: `]);
});

test('an answer is tried on the next key before the user is asked again', async () => {
  let asked = 0;
  const ask: Ask = async () => {
    asked += 1;
    return 'passphrase';
  };
  await fingerprints(['protected.json', 'protected.json'], ask);
  assert.equal(asked, 1);
});

test('a bare key asks nobody', async () => {
  const ask: Ask = async () => assert.fail('asked');
  assert.deepEqual(await fingerprints(['bare.json'], ask), [expected]);
});

test('the default key is that of the user, else that of the machine', async () => {
  await mkdir(path('shared/proxmox-backup'), { recursive: true });
  await writeFile(path('shared/proxmox-backup/encryption-key.json'), JSON.stringify(otherKey));
  assert.deepEqual(await fingerprints([]), [other]);
  await mkdir(path('config/proxmox-backup'), { recursive: true });
  await writeFile(path('config/proxmox-backup/encryption-key.json'), JSON.stringify(bareKey));
  assert.deepEqual(await fingerprints([]), [expected]);
  assert.deepEqual(await fingerprints(['other.json']), [other]);
});

test('a default key that nobody can unlock is left out with a warning', async () => {
  await mkdir(path('locked/proxmox-backup'), { recursive: true });
  await writeFile(path('locked/proxmox-backup/encryption-key.json'), JSON.stringify(protectedKey));
  process.env['XDG_CONFIG_HOME'] = path('locked');
  const messages: string[] = [];
  const ring = await openKeyRing({ keyfile: [] }, undefined, (level, message) => {
    messages.push(`${level}: ${message}`);
  });
  assert.equal(ring.isEmpty, true);
  assert.match(messages.join('\n'), /^warn: .*encryption-key\.json: .*PBS_ENCRYPTION_PASSWORD/);
});

const failures: readonly (readonly [
  what: string,
  file: string,
  passphrase: string | undefined,
  code: string,
])[] = [
  ['a key file that is missing', 'nope.json', undefined, 'not-found'],
  ['a key file that is a directory', '.', undefined, 'is-directory'],
  ['a key file that is none', 'broken.json', undefined, 'corrupt'],
  ['a passphrase that is missing', 'protected.json', undefined, 'key-missing'],
  ['a passphrase that is wrong', 'protected.json', 'not this one', 'key-wrong'],
];

for (const [what, file, passphrase, code] of failures) {
  test(`${what} is an error that names the file`, async () => {
    if (passphrase !== undefined) process.env['PBS_ENCRYPTION_PASSWORD'] = passphrase;
    await assert.rejects(
      fingerprints([file]),
      (error) =>
        isPbsfsError(error) &&
        error.code === code &&
        error.context.path === path(file) &&
        !error.message.includes('not this one'),
    );
  });
}
