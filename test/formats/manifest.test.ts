/** Manifests: the published signature, what it covers, and what a server may not change unnoticed. */
import assert from 'node:assert/strict';
import { createHmac, scryptSync } from 'node:crypto';
import { test } from 'node:test';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { formatFingerprint } from '../../src/formats/fingerprint.ts';
import {
  createManifest,
  formatManifest,
  type Manifest,
  type ManifestContent,
  parseManifest,
  signManifest,
  verifyManifest,
} from '../../src/formats/manifest.ts';
import {
  encodeTestManifest,
  fingerprintOf,
  idKeyOf,
  otherKey,
  vectorKey,
} from '../support/encode-formats.ts';
import { expectError } from '../support/expect-error.ts';

type Json = Record<string, unknown>;

const parse = (json: unknown): Manifest => parseManifest(Buffer.from(JSON.stringify(json)));

const publishedKey = scryptSync('test', '', 32, { N: 65536, r: 8, p: 1, maxmem: 2 ** 27 });
const published = new CryptConfig(publishedKey);
const signature = 'd7b446fb7db081662081d4b40fedd858a1d6307a5aff4ecff7d5bf4fd35679e9';

function publishedJson(): Json & { files: [Json, Json]; unprotected: Json } {
  return {
    'backup-type': 'host',
    'backup-id': 'elsa',
    'backup-time': 1_593_179_765,
    files: [
      { filename: 'test1.img.fidx', 'crypt-mode': 'encrypt', size: 200, csum: '01'.repeat(32) },
      { filename: 'abc.blob', 'crypt-mode': 'none', size: 200, csum: '02'.repeat(32) },
    ],
    unprotected: { 'key-fingerprint': fingerprintOf(publishedKey) },
    signature,
  };
}

test('the published key, fingerprint and signature come out', () => {
  assert.equal(
    formatFingerprint(published.fingerprint),
    '12:b9:b7:74:bb:3d:89:95:2b:97:cb:c2:82:f0:0c:14:2b:83:ba:7f:96:62:6a:a1:5a:44:9a:63:e8:91:fe:25',
  );
  verifyManifest(parse(publishedJson()), published, { requireSignature: true });
  const { signature: _, ...unsigned } = publishedJson();
  assert.equal(signManifest(parse(unsigned), published).signature, signature);
});

test('a manifest is read into its typed form', () => {
  const manifest = parse({
    ...publishedJson(),
    unprotected: {
      'key-fingerprint': fingerprintOf(publishedKey).toUpperCase(),
      notes: 'two\nlines',
      verify_state: { upid: 'UPID:x', state: 'failed' },
      chunk_upload_stats: { count: 1, size: 2, compressed_size: 3, duplicates: 4 },
      unknown: [1],
    },
  });
  assert.equal(manifest.backupType, 'host');
  assert.equal(manifest.backupId, 'elsa');
  assert.equal(manifest.backupTime, 1_593_179_765);
  assert.deepEqual(manifest.files, [
    { filename: 'test1.img.fidx', cryptMode: 'encrypt', size: 200, csum: Buffer.alloc(32, 1) },
    { filename: 'abc.blob', cryptMode: 'none', size: 200, csum: Buffer.alloc(32, 2) },
  ]);
  assert.deepEqual(manifest.unprotected, {
    keyFingerprint: published.fingerprint,
    notes: 'two\nlines',
    verifyState: { state: 'failed', upid: 'UPID:x' },
    chunkUploadStats: { count: 1, size: 2, compressedSize: 3, duplicates: 4 },
  });
});

test('very old manifests name no crypt mode and have no unprotected part', () => {
  const json: Json & { files: [Json, Json] } = publishedJson();
  delete json['unprotected'];
  delete json['signature'];
  delete json.files[0]['crypt-mode'];
  const manifest = parse(json);
  assert.equal(manifest.files[0]?.cryptMode, 'none');
  assert.equal(manifest.signature, undefined);
  assert.deepEqual(manifest.unprotected, {});
});

test('what the server writes beside the signed part leaves the signature valid', () => {
  for (const unprotected of [{}, null, { notes: null, x: { y: [null, 1.5] } }, undefined]) {
    verifyManifest(parse({ ...publishedJson(), unprotected }), published, {
      requireSignature: true,
    });
  }
});

test('every change of the signed part is found', () => {
  const changes: readonly ((json: ReturnType<typeof publishedJson>) => void)[] = [
    (json) => (json['backup-id'] = 'anna'),
    (json) => (json['backup-time'] = 1_593_179_766),
    (json) => (json['backup-type'] = 'vm'),
    (json) => (json['extra'] = 'member'),
    (json) => json.files.reverse(),
    (json) => json.files.pop(),
    (json) => (json.files[0]['size'] = 201),
    (json) => (json.files[0]['crypt-mode'] = 'none'),
    (json) => (json.files[0]['filename'] = 'test2.img.fidx'),
    (json) => (json.files[1]['csum'] = '03'.repeat(32)),
    (json) => (json.files[1]['extra'] = 1),
    (json) => (json['signature'] = '00'.repeat(32)),
    (json) => (json['signature'] = signature.slice(2)),
    (json) => (json['signature'] = `${signature}00`),
    (json) => (json['signature'] = ''),
  ];
  for (const change of changes) {
    const json = publishedJson();
    change(json);
    const { unprotected: _, ...withoutFingerprint } = json;
    for (const tampered of [json, withoutFingerprint]) {
      assert.throws(
        () => verifyManifest(parse(tampered), published),
        expectError('corrupt', /signature/),
        String(change),
      );
    }
  }
});

test('another key is told from a broken signature, with both fingerprints', () => {
  const other = new CryptConfig(otherKey);
  const [made, given] = [fingerprintOf(publishedKey), fingerprintOf(otherKey)];
  const both = new RegExp(`${made.slice(0, 23)}.*${given.slice(0, 23)}`);
  assert.throws(
    () => verifyManifest(parse(publishedJson()), other),
    expectError('key-wrong', both),
  );
  const { signature: _, ...unsigned } = publishedJson();
  assert.throws(() => verifyManifest(parse(unsigned), other), expectError('key-wrong', both));
});

test('a manifest without a signature passes unless one is required', () => {
  const { signature: _, ...unsigned } = publishedJson();
  for (const json of [unsigned, { ...unsigned, signature: null }]) {
    verifyManifest(parse(json), published);
    assert.throws(
      () => verifyManifest(parse(json), published, { requireSignature: true }),
      expectError('corrupt', /not signed/),
    );
  }
});

test('a null in the signed part is an error, not a signature', () => {
  assert.throws(
    () => verifyManifest(parse({ ...publishedJson(), extra: [null] }), published),
    expectError('corrupt', /null/),
  );
});

test('numbers beyond 2^53 are covered as they were written', () => {
  const crypt = new CryptConfig(vectorKey);
  const signed =
    '{"backup-id":"a","backup-time":5,"backup-type":"vm","files":[],"x":[18446744073709551615,1.0]}';
  const hmac = createHmac('sha256', idKeyOf(vectorKey)).update(signed).digest('hex');
  const text = `${signed.slice(0, -1)},"unprotected":{},"signature":"${hmac}"}`;
  const manifest = parseManifest(Buffer.from(text));
  verifyManifest(manifest, crypt, { requireSignature: true });
  assert.match(formatManifest(manifest), /18446744073709551615,\s+1\.0\s/);
  const rounded = Buffer.from(text.replace('18446744073709551615', '18446744073709552000'));
  assert.throws(() => verifyManifest(parseManifest(rounded), crypt), expectError('corrupt'));
});

const content: ManifestContent = {
  backupType: 'vm',
  backupId: '100',
  backupTime: 1_700_000_000,
  files: [
    { filename: 'drive-scsi0.img.fidx', cryptMode: 'encrypt', size: 7, csum: Buffer.alloc(32, 7) },
    { filename: 'qemu-server.conf.blob', cryptMode: 'none', size: 9, csum: Buffer.alloc(32, 9) },
  ],
  unprotected: {
    notes: 'äöü "quoted"',
    verifyState: { state: 'ok', upid: 'UPID:1' },
    chunkUploadStats: { count: 1, size: 2, compressedSize: 3, duplicates: 4 },
  },
};

/** The same content for the independent encoder; members in the order in which PBS sorts them. */
function independent(key?: Uint8Array): string {
  return encodeTestManifest({
    type: 'vm',
    id: '100',
    time: 1_700_000_000,
    files: content.files.map((file) => ({ ...file, csum: file.csum.toString('hex') })),
    unprotected: {
      chunk_upload_stats: { compressed_size: 3, count: 1, duplicates: 4, size: 2 },
      notes: 'äöü "quoted"',
      verify_state: { state: 'ok', upid: 'UPID:1' },
    },
    key,
  });
}

test('a new manifest is written as the independent encoder writes it, and read back', () => {
  const manifest = createManifest(content);
  assert.equal(formatManifest(manifest), independent());
  const { json: _, ...read } = parseManifest(Buffer.from(formatManifest(manifest)));
  assert.deepEqual(read, {
    ...content,
    unprotected: { ...content.unprotected, keyFingerprint: undefined },
    signature: undefined,
  });
});

test('a new manifest is signed as the independent encoder signs it', () => {
  const crypt = new CryptConfig(vectorKey);
  const manifest = signManifest(createManifest(content), crypt);
  assert.deepEqual(JSON.parse(formatManifest(manifest)), JSON.parse(independent(vectorKey)));
  verifyManifest(manifest, crypt, { requireSignature: true });
  verifyManifest(parseManifest(Buffer.from(independent(vectorKey))), crypt, {
    requireSignature: true,
  });
});

test('unknown members survive being signed and written', () => {
  const manifest = parse({ ...publishedJson(), extra: 'x', unprotected: { later: 1 } });
  const written = JSON.parse(formatManifest(signManifest(manifest, published)));
  assert.equal(written.extra, 'x');
  assert.deepEqual(written.unprotected, {
    later: 1,
    'key-fingerprint': fingerprintOf(publishedKey),
  });
});

const files = publishedJson().files;
const [file] = files;
const wrong: readonly (readonly [string, unknown, RegExp])[] = [
  ['a list', [], /not a JSON object/],
  ['a null', null, /not a JSON object/],
  ['no type', { ...publishedJson(), 'backup-type': undefined }, /'backup-type'/],
  ['an unknown type', { ...publishedJson(), 'backup-type': 'qemu' }, /'backup-type'/],
  ['an id with a slash', { ...publishedJson(), 'backup-id': '../x' }, /'backup-id'/],
  ['a time that is text', { ...publishedJson(), 'backup-time': '5' }, /'backup-time'/],
  ['a negative time', { ...publishedJson(), 'backup-time': -5 }, /'backup-time'/],
  ['a time beyond the year 9999', { ...publishedJson(), 'backup-time': 1e12 }, /'backup-time'/],
  ['no files', { ...publishedJson(), files: undefined }, /'files'/],
  ['files that are no list', { ...publishedJson(), files: {} }, /'files'/],
  ['a file that is no object', { ...publishedJson(), files: [1] }, /file 0/],
  [
    'a path for a name',
    { ...publishedJson(), files: [{ ...file, filename: '../a.blob' }] },
    /'filename'/,
  ],
  [
    'a name of no archive',
    { ...publishedJson(), files: [{ ...file, filename: 'a.exe' }] },
    /'filename'/,
  ],
  ['a file listed twice', { ...publishedJson(), files: [file, file] }, /test1.img.fidx.*twice/],
  ['a short checksum', { ...publishedJson(), files: [{ ...file, csum: '01' }] }, /'csum'/],
  [
    'a checksum of no hex',
    { ...publishedJson(), files: [{ ...file, csum: 'g'.repeat(64) }] },
    /'csum'/,
  ],
  ['a negative size', { ...publishedJson(), files: [{ ...file, size: -1 }] }, /'size'/],
  ['half a byte', { ...publishedJson(), files: [{ ...file, size: 0.5 }] }, /'size'/],
  ['a size of 2^53', { ...publishedJson(), files: [{ ...file, size: 2 ** 53 }] }, /'size'/],
  [
    'an unknown crypt mode',
    { ...publishedJson(), files: [{ ...file, 'crypt-mode': 'rot13' }] },
    /'crypt-mode'/,
  ],
  ['a signature that is a number', { ...publishedJson(), signature: 5 }, /'signature'/],
  ['an unprotected list', { ...publishedJson(), unprotected: [] }, /'unprotected'/],
  [
    'a wrong fingerprint',
    { ...publishedJson(), unprotected: { 'key-fingerprint': 'aa' } },
    /fingerprint/,
  ],
];

for (const [name, json, message] of wrong) {
  test(`a manifest is corrupt: ${name}`, () => {
    assert.throws(() => parse(json), expectError('corrupt', message));
  });
}

test('malformed decoration is left out and does not hide the snapshot', () => {
  const manifest = parse({
    ...publishedJson(),
    unprotected: { notes: 5, verify_state: 'ok', chunk_upload_stats: { count: 'x' } },
  });
  assert.deepEqual(manifest.unprotected, {
    keyFingerprint: undefined,
    notes: undefined,
    verifyState: undefined,
    chunkUploadStats: undefined,
  });
});
