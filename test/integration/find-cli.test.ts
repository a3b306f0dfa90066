/** `find` in a child process, on datastores that the test encoders write. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type CliResult, runCli } from '../cli/run-cli.ts';
import { temporaryDatastore } from '../support/encode-datastore.ts';
import { goldenStore } from '../support/golden.ts';
import { needs } from '../support/requirements.ts';
import { first, second, time, writeFindStore } from '../transfer/support/find-store.ts';

const store = temporaryDatastore();

before(() => writeFindStore(store.path));
after(() => store[Symbol.dispose]());

async function find(...args: string[]): Promise<CliResult> {
  return await runCli(['find', ...args], { env: { PBS_REPOSITORY: store.path } });
}

async function lines(...args: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await find(...args);
  assert.deepEqual([stderr, code], ['', 0]);
  return stdout.toString().split('\n').slice(0, -1);
}

test('names, sizes and times are printed, of versions that differ', async () => {
  const group = 'host/listed';
  assert.deepEqual(
    await lines('--name', 'id_*', '--name', 'passwd', '--type', 'f', '--unique', group),
    [
      `${group}/${first}/root.pxar/etc/id_rsa\t3\t2023-11-13T22:13:20Z`,
      `${group}/${first}/root.pxar/etc/passwd\t3\t${first}`,
      `${group}/${second}/root.pxar/etc/id_\\xFF\\x09\t1\t${first}`,
      `${group}/${second}/root.pxar/etc/passwd\t5\t2023-11-14T22:13:30Z`,
    ],
  );
  const size = ['--size', '+2M', '--size', '-3000k'];
  const age = ['--older', '2023-11-15', '--newer', `@${time - 1}`];
  assert.deepEqual(await lines(...size, ...age, 'host/plain'), [
    `host/plain/${first}/root.pxar/big\t3000000\t${first}`,
  ]);
});

test('the catalog answers while the archive cannot be read', async () => {
  const path = 'ns/off/host/listed-damaged';
  const { code, stdout } = await find('--type', 'f', '--name', 'passwd', path);
  assert.equal(code, 0);
  assert.equal(stdout.toString().split('\n').length, 3);
});

test('what cannot be searched is named, and the rest is found', async () => {
  const { code, stdout, stderr } = await find('--name', 'passwd');
  assert.equal(code, 6);
  assert.match(
    stderr,
    /^pbsfs: find: ns\/off\/host\/damaged\/.*: root\.pxar\.didx: .*chunk [0-9a-f]{64}/m,
  );
  assert.equal(stdout.toString().split('\n').length, 2 * 4 + 1);
});

test('a locked archive exits with 5 and is named', { skip: needs('golden') }, async () => {
  const { code, stdout, stderr } = await runCli([
    'find',
    '-r',
    goldenStore,
    '--name',
    'passwd',
    'host/enc',
  ]);
  assert.equal(code, 5);
  assert.equal(stdout.length, 0);
  assert.equal(stderr.match(/^pbsfs: find: .*no key was given/gm)?.length, 2);
});

test('everything is searched, images too, and one file can be the start', async () => {
  assert.deepEqual(await lines('--name', '*.img', 'vm'), [
    `vm/100/${first}/drive-scsi0.img\t5000000\t${first}`,
  ]);
  assert.deepEqual(await lines('vm/100/latest/drive-scsi0.img'), [
    `vm/100/${first}/drive-scsi0.img\t5000000\t${first}`,
  ]);
  assert.deepEqual(await lines('--name', 'none', 'host'), []);
});

test('--print0 gives paths as they are, --json as values', async () => {
  const raw = await find('-0', '--name', 'id_?*', '--name', 'none', `host/listed/${second}`);
  const expected = Buffer.concat([
    Buffer.from(`host/listed/${second}/root.pxar/etc/id_`),
    Buffer.from([0xff, 0x09, 0]),
    Buffer.from(`host/listed/${second}/root.pxar/etc/id_rsa\0`),
  ]);
  assert.ok(raw.stdout.equals(expected));
  const { stdout } = await find('--json', '--name', 'id_link', 'host/listed');
  assert.deepEqual(JSON.parse(stdout.toString()), [
    {
      path: `host/listed/${first}/root.pxar/id_link`,
      path_b64: Buffer.from(`host/listed/${first}/root.pxar/id_link`).toString('base64'),
      type: 'l',
      size: null,
      mtime: time,
    },
  ]);
  assert.equal((await find('--json', '--name', 'none', 'vm')).stdout.toString(), '[]\n');
});

test('a start that is not there is an error', async () => {
  const { code, stderr } = await find('--name', 'x', 'host/nobody');
  assert.equal(code, 3);
  assert.match(stderr, /host\/nobody: no such file or directory/);
});
