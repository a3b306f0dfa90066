/** Encrypted snapshots of the golden datastore whose key is missing or wrong: what is said, what is still shown. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { zstdDecompressSync } from 'node:zlib';
import { isMounted, temporaryMountPoint } from '../cli/mounted.ts';
import { type CliResult, runCli } from '../cli/run-cli.ts';
import { encodeTestBlob } from '../support/encode-datastore.ts';
import { goldenPassphrase, goldenPath, goldenStore, readGolden } from '../support/golden.ts';
import { copyGoldenStore, mountStore, python, run } from '../support/golden-mount.ts';
import { temporaryDirectory } from '../support/mount-fixture.ts';
import { needs } from '../support/requirements.ts';
import { until } from '../support/until.ts';

const timeout = 120_000;
const skipCat = needs('golden');
const skipMounts = needs('golden', 'fuse', 'root', 'python3');

/** Its key is `none.json`. */
const plainKey = 'vm/200/2023-11-14T22:13:20Z';
/** Its key is `scrypt.json`. */
const passphraseKey = 'vm/200/2023-11-15T22:13:20Z';
const keyFile = (name: string): string => goldenPath(`keys/${name}.json`);

/** The content of a blob, whether it is compressed or not. */
function plainOf(raw: Buffer): string {
  const payload = raw.subarray(12);
  return (
    raw.toString('hex', 0, 8) === '31b958426fb6a37f' ? zstdDecompressSync(payload) : payload
  ).toString();
}

async function changeManifest(
  store: string,
  snapshot: string,
  change: (manifest: Record<string, unknown>) => void,
): Promise<void> {
  const path = join(store, snapshot, 'index.json.blob');
  const manifest = JSON.parse(plainOf(await readFile(path))) as Record<string, unknown>;
  change(manifest);
  await writeFile(path, encodeTestBlob(Buffer.from(JSON.stringify(manifest)), 'plain'));
}

describe('cat of what is locked', { skip: skipCat, timeout }, () => {
  let store: AsyncDisposable & { readonly path: string };
  let folder: AsyncDisposable & { readonly path: string };
  const resources = new AsyncDisposableStack();
  before(async () => {
    folder = resources.use(await temporaryDirectory());
    store = resources.use(await copyGoldenStore());
    await changeManifest(store.path, plainKey, (manifest) => {
      manifest['signature'] = String(manifest['signature']).replace(/^./, (digit) =>
        digit === '0' ? '1' : '0',
      );
    });
    await changeManifest(store.path, 'vm/200/2023-11-16T22:13:20Z', (manifest) => {
      manifest['unprotected'] = {};
    });
    const otherFingerprint = JSON.parse(readGolden('keys/none.json').toString());
    otherFingerprint.fingerprint = JSON.parse(
      readGolden('keys/scrypt.json').toString(),
    ).fingerprint;
    await writeFile(join(folder.path, 'other.json'), JSON.stringify(otherFingerprint));
  });
  after(() => resources.disposeAsync());

  const cat = async (
    snapshot: string,
    keys: readonly string[],
    secret = '',
  ): Promise<CliResult> => {
    const args = keys.flatMap((key) => ['--keyfile', key]);
    const env = secret === '' ? {} : { PBS_ENCRYPTION_PASSWORD: secret };
    return await runCli(['cat', '-r', store.path, ...args, `${snapshot}/qemu-server.conf`], {
      env,
    });
  };

  const expecting = async (running: Promise<CliResult>, expectedCode: number, message: RegExp) => {
    return { result: await running, expectedCode, message };
  };

  test('says what is wrong with the key in a message of its own, each time', async () => {
    const none = keyFile('none');
    const scrypt = keyFile('scrypt');
    const other = join(folder.path, 'other.json');
    const unnamedKey = 'vm/200/2023-11-16T22:13:20Z';
    const cases = await Promise.all([
      expecting(cat(passphraseKey, []), 5, /encrypted with key 9a:ed:.*no key was given/),
      expecting(cat(passphraseKey, [none]), 5, /key 9a:ed:.*not among.*given: e9:26:/),
      expecting(cat(passphraseKey, [scrypt]), 5, /scrypt\.json: .*passphrase.*none was given/),
      expecting(cat(passphraseKey, [scrypt], 'wrong'), 5, /scrypt\.json: wrong passphrase/),
      expecting(cat(passphraseKey, [other]), 6, /other\.json: .*9a:ed:.*e9:26:/),
      expecting(cat(plainKey, [none]), 6, /vm\/200\/.*index\.json.*signature/),
      expecting(cat(unnamedKey, [none]), 5, /encrypted with an unknown key/),
    ]);
    for (const { result, expectedCode, message } of cases) {
      const { code, stdout, stderr } = result;
      assert.match(stderr, message);
      assert.equal(code, expectedCode, stderr);
      assert.equal(stdout.length, 0);
      assert.match(stderr, /^pbsfs: cat: [^\n]*\n$/);
      assert.doesNotMatch(stderr, /fixture-passphrase|wrong'/);
    }
    assert.equal(new Set(cases.map(({ result }) => result.stderr)).size, cases.length);
  });

  test('reads with the right key among others, and with the one from the environment', async () => {
    const keys = ['pbkdf2', 'scrypt', 'none'].map(keyFile);
    const { code, stdout } = await cat(passphraseKey, keys, goldenPassphrase);
    assert.equal(code, 0);
    assert.match(stdout.toString(), /^memory: 2048$/m);
    assert.equal((await cat('vm/100/latest', keys, goldenPassphrase)).code, 0);
  });
});

/** Prints the errno of reading each path, or of listing it. */
const readEach = `
import os, sys
for path in sys.argv[1:]:
    try: os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(); print(0)
    except OSError as error: print(error.errno)
`;

describe('a mount of what is locked', { skip: skipMounts, timeout }, () => {
  const [ENOKEY, EKEYREJECTED, EIO] = [126, 129, 5];
  const encrypted = [
    `${passphraseKey}/drive-scsi0.img`,
    `${passphraseKey}/qemu-server.conf`,
    'host/enc/2023-11-15T22:13:20Z/root.pxar',
    'host/enc/2023-11-15T22:13:20Z/catalog.pcat1',
    'host/splitenc/2023-11-14T22:13:20Z/root.pxar',
  ];
  const readable = [
    `${passphraseKey}/index.json`,
    'vm/201/2023-11-14T22:13:20Z/drive-scsi0.img',
    'host/signed/2023-11-14T22:13:20Z/root.pxar',
    'vm/100/latest/drive-scsi1.img',
  ];

  const cases = [
    ['without a key', [], ENOKEY, 'no key was given'],
    ['with another key', ['--keyfile', keyFile('none')], EKEYREJECTED, 'not among the keys'],
  ] as const;
  for (const [what, args, errno, why] of cases) {
    test(`lists all of it ${what}, with the sizes of images, and says why it cannot be read`, async () => {
      await using mount = await mountStore(args);
      const listed = await run('ls', '-l', mount.at(passphraseKey));
      assert.match(listed, / 9438184 Nov 15 {2}2023 drive-scsi0\.img$/m);
      const paths = [...encrypted, ...readable].map((path) => mount.at(path));
      const found = (await python(readEach, ...paths)).trim().split('\n').map(Number);
      assert.deepEqual(found, [...encrypted.map(() => errno), ...readable.map(() => 0)]);
      for (const path of encrypted) {
        const [, snapshot = '', name = ''] = /^(.*)\/(.*?)(?:\.pxar|\.pcat1)?$/.exec(path) ?? [];
        const words = [snapshot, name, '9a:ed:fa:b8', why];
        await until(`${path} is told of`, async () => mount.logOf(...words).length === 1);
      }
    });
  }

  test('refuses a snapshot whose signature is wrong, and no other', async () => {
    await using store = await copyGoldenStore();
    await changeManifest(store.path, plainKey, (manifest) => {
      manifest['signature'] = '0'.repeat(64);
    });
    await using mount = await mountStore(['--keyfile', keyFile('none')], store.path);
    const refused = ['drive-scsi0.img', 'qemu-server.conf', 'client.log', 'index.json'];
    const paths = refused.map((name) => mount.at(plainKey, name));
    const other = mount.at('host/enc/2023-11-14T22:13:20Z/root.pxar');
    const found = (await python(readEach, ...paths, other)).trim().split('\n').map(Number);
    assert.deepEqual(found, [...refused.map(() => EIO), 0]);
    await until('it is told of', async () => mount.logOf(plainKey, 'signature').length === 1);
  });

  test('does not begin with a wrong passphrase', async () => {
    await using point = await temporaryMountPoint();
    const args = ['mount', '--keyfile', keyFile('scrypt'), goldenStore, point.path];
    const result = await runCli(args, { env: { PBS_ENCRYPTION_PASSWORD: 'wrong' } });
    assert.match(result.stderr, /^pbsfs: mount: .*scrypt\.json: wrong passphrase.*\n$/);
    assert.equal(result.code, 5);
    assert.equal(await isMounted(point.path), false);
  });
});
