/** Key files: the published vectors, the golden keys, what users get wrong, and hostile files. */
import assert from 'node:assert/strict';
import { createDecipheriv, pbkdf2Sync, scryptSync } from 'node:crypto';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import {
  createKeyFile,
  formatKeyFile,
  type Kdf,
  type KeyFile,
  parseKeyFile,
  unlockKeyFile,
} from '../../src/formats/key-file.ts';
import { fingerprintOf, vectorKey } from '../support/encode-formats.ts';
import { expectError } from '../support/expect-error.ts';
import { goldenPassphrase, readGolden } from '../support/golden.ts';
import { goldenKeyNames } from '../support/golden-keys.ts';
import { needs } from '../support/requirements.ts';

const salt = Buffer.alloc(32).toString('base64');
const created = '2020-07-17T10:33:05+02:00';
const passphrase = Buffer.from('passphrase');
const crypt = new CryptConfig(vectorKey);

const bare = {
  kdf: null,
  created,
  modified: created,
  data: vectorKey.toString('base64'),
  fingerprint: fingerprintOf(vectorKey),
};
const scryptFile = {
  ...bare,
  kdf: { Scrypt: { n: 65536, r: 8, p: 1, salt } },
  data: 'AAAAAAAAAAAAAAAAAAAAAP3zqTkJEOF63gd4URtSm3riLY8frkKzLxrbwr37VDvF6Edg9UfFfwUt5TTjg3gTjw==',
};
const pbkdf2File = {
  ...bare,
  kdf: { PBKDF2: { iter: 65535, salt } },
  data: 'AAAAAAAAAAAAAAAAAAAAAMaCIrPzErtgxxFyFhNTAu8oyZecmSphYXmZnZsnKTBphCc2s2NczlN+b17FnaQrGA==',
};

const parse = (json: unknown): KeyFile => parseKeyFile(JSON.stringify(json));

test('the published key files unlock: bare, scrypt and PBKDF2', async () => {
  for (const json of [bare, scryptFile, pbkdf2File]) {
    const unlocked = await unlockKeyFile(parse(json), passphrase);
    assert.deepEqual(unlocked.revealKey(), vectorKey);
  }
  assert.deepEqual((await unlockKeyFile(parse(bare))).revealKey(), vectorKey);
});

test('the golden key files of the real client unlock', { skip: needs('golden') }, async () => {
  const fingerprints = { none: 'e9:26', scrypt: '9a:ed', pbkdf2: 'b3:b5' } as const;
  for (const name of goldenKeyNames) {
    const text = readGolden(`keys/${name}.json`).toString();
    const keyFile = parseKeyFile(text);
    const unlocked = await unlockKeyFile(keyFile, Buffer.from(goldenPassphrase));
    assert.equal(fingerprintOf(unlocked.revealKey()).slice(0, 5), fingerprints[name]);
    assert.equal(formatKeyFile(keyFile), text.trim());
  }
});

test('a missing passphrase and a wrong one are told apart, with the hint of the owner', async () => {
  const hinted = parse({ ...pbkdf2File, hint: 'the usual one' });
  const rejection = async (given?: Uint8Array): Promise<unknown> =>
    unlockKeyFile(hinted, given).catch((error: unknown) => error);
  for (const [error, code] of [
    [await rejection(), 'key-missing'],
    [await rejection(Buffer.from('Passphrase')), 'key-wrong'],
    [await rejection(Buffer.alloc(0)), 'key-wrong'],
  ] as const) {
    assert.ok(expectError(code, /passphrase/)(error));
    assert.match(inspect(error), /the usual one/);
    assert.doesNotMatch(inspect(error), /Passphrase/);
  }
});

test('a key that is not the one the file names is refused, with both fingerprints', async () => {
  const json = { ...bare, data: Buffer.alloc(32, 0xa5).toString('base64') };
  await assert.rejects(unlockKeyFile(parse(json)), expectError('corrupt', /0e:ab:d4:46.*holds/));
});

test('an old key file without a fingerprint unlocks', async () => {
  const { fingerprint: _, ...old } = bare;
  assert.deepEqual((await unlockKeyFile(parse(old))).fingerprint, crypt.fingerprint);
});

test('a paper key is read with the text around it', async () => {
  const lines = JSON.stringify(bare, undefined, 2).replaceAll('\n', '   \n');
  const begin = '-----BEGIN PROXMOX BACKUP KEY-----';
  const end = '-----END PROXMOX BACKUP KEY-----';
  const paper = `Subject: main site\n\n${begin}\n${lines}\n${end}\n\n█▀▀▀▀█ █\n`;
  assert.deepEqual((await unlockKeyFile(parseKeyFile(paper))).revealKey(), vectorKey);
  assert.throws(() => parseKeyFile(`${begin}\n${lines}`), expectError('corrupt', /END/));
});

test('CR LF line ends and a final line end do no harm', () => {
  const text = JSON.stringify(bare, undefined, 2).replaceAll('\n', '\r\n');
  assert.equal(parseKeyFile(`${text}\r\n`).kdf.type, 'none');
});

/** What a created file holds, by Node's crypto alone. */
function openByHand(text: string, secret: Uint8Array): Buffer {
  const { kdf, data } = JSON.parse(text);
  const bytes = Buffer.from(data, 'base64');
  if (kdf === null) return bytes;
  const key = kdf.Scrypt
    ? scryptSync(secret, Buffer.from(kdf.Scrypt.salt, 'base64'), 32, {
        N: kdf.Scrypt.n,
        r: kdf.Scrypt.r,
        p: kdf.Scrypt.p,
        maxmem: 2 ** 28,
      })
    : pbkdf2Sync(secret, Buffer.from(kdf.PBKDF2.salt, 'base64'), kdf.PBKDF2.iter, 32, 'sha256');
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 16));
  decipher.setAuthTag(bytes.subarray(16, 32));
  return Buffer.concat([decipher.update(bytes.subarray(32)), decipher.final()]);
}

for (const kdf of ['none', 'scrypt', 'pbkdf2'] as const satisfies readonly Kdf['type'][]) {
  test(`a key file is created with kdf ${kdf}, and opened by hand`, async () => {
    const keyFile = await createKeyFile(crypt, { kdf, passphrase, hint: 'usual', created });
    const text = formatKeyFile(keyFile);
    assert.deepEqual(openByHand(text, passphrase), vectorKey);
    assert.equal(formatKeyFile(parseKeyFile(text)), text);
    const json = JSON.parse(text);
    assert.equal(json.created, created);
    assert.match(json.modified, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/);
    assert.equal(json.fingerprint, fingerprintOf(vectorKey));
    assert.equal(json.hint, 'usual');
  });
}

test('a key file is not protected by a passphrase that PBS would refuse', async () => {
  for (const kdf of ['scrypt', 'pbkdf2'] as const) {
    await assert.rejects(createKeyFile(crypt, { kdf }), expectError('usage', /5 bytes/));
    await assert.rejects(
      createKeyFile(crypt, { kdf, passphrase: Buffer.from('four') }),
      expectError('usage', /5 bytes/),
    );
  }
});

test('every new file has a salt and an IV of its own', async () => {
  const [a, b] = await Promise.all(
    [1, 2].map(() => createKeyFile(crypt, { kdf: 'pbkdf2', passphrase })),
  );
  assert.notDeepEqual(a?.data.reveal(), b?.data.reveal());
  assert.notDeepEqual(a?.kdf, b?.kdf);
});

test('the key of a bare file shows neither in inspection nor in JSON', () => {
  const keyFile = parse(bare);
  for (const shown of [
    inspect(keyFile, { showHidden: true, depth: 10 }),
    JSON.stringify(keyFile),
  ]) {
    assert.doesNotMatch(shown, /00 01 02 03|0,1,2,3|00010203|AAECAw/);
  }
});

const scryptWith = (values: object): object => ({
  ...scryptFile,
  kdf: { Scrypt: { n: 65536, r: 8, p: 1, salt, ...values } },
});

const wrong: readonly (readonly [string, unknown, RegExp])[] = [
  ['a list', [], /not a JSON object/],
  ['an unknown kdf', { ...bare, kdf: { Argon2: {} } }, /Scrypt nor PBKDF2/],
  ['a kdf that is text', { ...bare, kdf: 'Scrypt' }, /kdf/],
  ['no data', { ...bare, data: undefined }, /'data'/],
  ['data that is no base64', { ...bare, data: '!'.repeat(44) }, /'data' is not base64/],
  ['data without padding', { ...bare, data: bare.data.slice(0, -1) }, /'data' is not base64/],
  ['a short bare key', { ...bare, data: 'AAAA' }, /'data' has 3 bytes instead of 32/],
  ['a bare key with a kdf', { ...scryptFile, data: bare.data }, /32 bytes instead of 64/],
  ['a protected key without kdf', { ...scryptFile, kdf: null }, /64 bytes instead of 32/],
  ['no time', { ...bare, created: undefined }, /'created'/],
  ['a time that is a number', { ...bare, modified: 5 }, /'modified'/],
  ['a wrong fingerprint', { ...bare, fingerprint: '0e:ab' }, /fingerprint/],
  ['a hint that is a number', { ...bare, hint: 5 }, /'hint'/],
  ['no salt', scryptWith({ salt: undefined }), /'salt'/],
  ['n that is text', scryptWith({ n: '65536' }), /'n'/],
  ['n of 0', scryptWith({ n: 0 }), /n=0/],
  ['n of 1', scryptWith({ n: 1 }), /n=1 /],
  ['n that is no power of two', scryptWith({ n: 65535 }), /n=65535/],
  ['n of 2^40', scryptWith({ n: 2 ** 40 }), /n=1099511627776/],
  ['r of 0', scryptWith({ r: 0 }), /r=0/],
  ['r of 2^30', scryptWith({ r: 2 ** 30 }), /r=1073741824/],
  ['2 GiB of memory', scryptWith({ n: 2 ** 20, r: 16 }), /n=1048576 r=16/],
  ['p of 0', scryptWith({ p: 0 }), /p=0/],
  ['p of 10,000', scryptWith({ p: 10_000 }), /p=10000/],
  ['no iterations', { ...pbkdf2File, kdf: { PBKDF2: { salt } } }, /'iter'/],
  ['0 iterations', { ...pbkdf2File, kdf: { PBKDF2: { iter: 0, salt } } }, /iter=0/],
  ['2^40 iterations', { ...pbkdf2File, kdf: { PBKDF2: { iter: 2 ** 40, salt } } }, /iter=1099/],
];

for (const [name, json, message] of wrong) {
  test(`a key file is corrupt: ${name}`, () => {
    assert.throws(() => parse(json), expectError('corrupt', message));
  });
}

test('parameters far above the usual ones are taken', () => {
  assert.equal(parse(scryptWith({ n: 2 ** 20 })).kdf.type, 'scrypt');
  assert.equal(parse(scryptWith({ p: 32 })).kdf.type, 'scrypt');
});

test('text that is no JSON is not quoted, for it may hold a key', () => {
  const text = `{"data":"${bare.data}"`;
  assert.throws(
    () => parseKeyFile(text),
    (error) => {
      assert.doesNotMatch(inspect(error), /AAECAw/);
      return expectError('corrupt', /key file is not JSON/)(error);
    },
  );
});

test('parameters that only scrypt itself refuses are corrupt as well', async () => {
  const keyFile = parse(scryptWith({ r: 1 }));
  await assert.rejects(
    unlockKeyFile(keyFile, passphrase),
    expectError('corrupt', /scrypt refuses/),
  );
});

test('a PEM file is told from a key file', () => {
  const pem = '-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIJ\n-----END ENCRYPTED PRIVATE KEY-----\n';
  assert.throws(() => parseKeyFile(pem), /PEM file/);
});
