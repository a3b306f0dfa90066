/** Recovery of a key with the private master key, and what is said when it fails. */
import assert from 'node:assert/strict';
import { constants, generateKeyPairSync, privateDecrypt, publicEncrypt } from 'node:crypto';
import { test } from 'node:test';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { decodeBlob, maxBlobSize } from '../../src/formats/data-blob.ts';
import {
  createKeyFile,
  formatKeyFile,
  parseKeyFile,
  unlockKeyFile,
} from '../../src/formats/key-file.ts';
import { decryptMasterKeyBlob, encryptForMasterKey } from '../../src/formats/master-key.ts';
import { vectorKey } from '../support/encode-formats.ts';
import { expectError } from '../support/expect-error.ts';
import { goldenPassphrase, readGolden } from '../support/golden.ts';
import { goldenKey } from '../support/golden-keys.ts';
import { needs } from '../support/requirements.ts';

const passphrase = Buffer.from('master-passphrase');

function makePair(modulusLength: number): { publicKey: string; privateKey: string } {
  return generateKeyPairSync('rsa', {
    modulusLength,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: {
      type: 'pkcs8',
      format: 'pem',
      cipher: 'aes-256-cbc',
      passphrase: String(passphrase),
    },
  });
}

const pair = makePair(3072);
const otherPair = makePair(3072);
const keyFile = await createKeyFile(new CryptConfig(vectorKey), { kdf: 'none' });
const encrypted = encryptForMasterKey(keyFile, pair.publicKey);

test('the golden key comes back', { skip: needs('golden') }, async () => {
  const raw = readGolden('store1/vm/200/2023-11-16T22:13:20Z/rsa-encrypted.key.blob');
  const content = await decodeBlob(raw, { maxLength: maxBlobSize, crc: true });
  assert.equal(content.length, 512);
  const pem = readGolden('keys/master-private.pem');
  const recovered = decryptMasterKeyBlob(content, pem, Buffer.from(goldenPassphrase));
  assert.equal(recovered.kdf.type, 'none');
  const original = parseKeyFile(readGolden('keys/pbkdf2.json').toString());
  assert.equal(recovered.created, original.created);
  const [found, expected] = [await unlockKeyFile(recovered), await goldenKey('pbkdf2')];
  assert.deepEqual(found.revealKey(), expected.revealKey());
});

test('a key encrypted for the master key comes back', async () => {
  assert.equal(encrypted.length, 384);
  const recovered = decryptMasterKeyBlob(encrypted, pair.privateKey, passphrase);
  assert.equal(formatKeyFile(recovered), formatKeyFile(keyFile));
  assert.deepEqual((await unlockKeyFile(recovered)).revealKey(), vectorKey);
});

test('what is encrypted is PKCS #1 v1.5 to others', () => {
  const key = {
    key: pair.privateKey,
    passphrase: String(passphrase),
    padding: constants.RSA_PKCS1_PADDING,
  };
  assert.equal(String(privateDecrypt(key, encrypted)), formatKeyFile(keyFile));
});

test('a missing and a wrong passphrase of the private key are told apart', () => {
  assert.throws(
    () => decryptMasterKeyBlob(encrypted, pair.privateKey),
    expectError('key-missing', /passphrase/),
  );
  for (const wrong of ['', 'wrong', 'x'.repeat(5000)]) {
    assert.throws(
      () => decryptMasterKeyBlob(encrypted, pair.privateKey, Buffer.from(wrong)),
      expectError('key-wrong', /passphrase/),
    );
  }
});

test('another private key is told', () => {
  assert.throws(
    () => decryptMasterKeyBlob(encrypted, otherPair.privateKey, passphrase),
    expectError('key-wrong', /not made for this master key/),
  );
  for (const bytes of [Buffer.alloc(384), Buffer.alloc(384, 0xff)]) {
    assert.throws(
      () => decryptMasterKeyBlob(bytes, pair.privateKey, passphrase),
      expectError('key-wrong', /not made for this master key/),
    );
  }
});

test('a padding shorter than 8 bytes is none', () => {
  const text = Buffer.from(formatKeyFile(keyFile));
  for (const [padding, isRight] of [
    [7, false],
    [8, true],
  ] as const) {
    const message = Buffer.concat([text, Buffer.alloc(384 - 3 - padding - text.length, ' ')]);
    const block = Buffer.concat([
      Buffer.from([0, 2]),
      Buffer.alloc(padding, 1),
      Buffer.alloc(1),
      message,
    ]);
    const bytes = publicEncrypt({ key: pair.publicKey, padding: constants.RSA_NO_PADDING }, block);
    const decrypt = (): unknown => decryptMasterKeyBlob(bytes, pair.privateKey, passphrase);
    if (isRight) decrypt();
    else assert.throws(decrypt, expectError('key-wrong'));
  }
});

test('another length than that of the modulus is told, with the figures', () => {
  for (const bytes of [Buffer.alloc(0), encrypted.subarray(1), Buffer.alloc(512)]) {
    assert.throws(
      () => decryptMasterKeyBlob(bytes, pair.privateKey, passphrase),
      expectError('key-wrong', new RegExp(`${bytes.length} bytes.* 384`)),
    );
  }
});

test('a private key is taken without a passphrase, needed or not', () => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 3072,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  });
  const bytes = encryptForMasterKey(keyFile, publicKey);
  for (const given of [undefined, passphrase]) {
    const recovered = decryptMasterKeyBlob(bytes, privateKey, given);
    assert.equal(formatKeyFile(recovered), formatKeyFile(keyFile));
  }
});

test('what is no RSA key is told', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519', {
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  assert.throws(
    () => decryptMasterKeyBlob(encrypted, privateKey),
    expectError('corrupt', /ed25519/),
  );
  assert.throws(() => encryptForMasterKey(keyFile, publicKey), expectError('corrupt', /ed25519/));
  for (const text of ['', 'no key', publicKey]) {
    assert.throws(() => decryptMasterKeyBlob(encrypted, text), expectError('corrupt', /PEM/));
  }
  assert.throws(() => encryptForMasterKey(keyFile, 'no key'), expectError('corrupt', /PEM/));
});

test('a master key too short for a key file is told', () => {
  const { publicKey } = makePair(2048);
  assert.throws(() => encryptForMasterKey(keyFile, publicKey), expectError('corrupt', /2048 bits/));
});

test('a protected key file is not put into a blob that could not be recovered', async () => {
  const locked = await createKeyFile(new CryptConfig(vectorKey), { kdf: 'pbkdf2', passphrase });
  assert.throws(() => encryptForMasterKey(locked, pair.publicKey), expectError('bug'));
});
