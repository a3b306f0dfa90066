/** The command line against a server of its own kind: who it is, what it may, and what it is told when not. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startMount, temporaryMountPoint } from '../cli/mounted.ts';
import { type CliResult, runCli } from '../cli/run-cli.ts';
import { temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';
import { PbsServer, testPassword } from '../support/pbs-server/server.ts';
import { needs } from '../support/requirements.ts';

const isRoot = process.getuid?.() === 0;
const store = temporaryDatastore();
const disk = randomBytes(5 * 1024 * 1024);
const image = 'vm/100/latest/drive-scsi0.img';
let server: PbsServer;

before(async () => {
  writeSnapshot(store.path, {
    group: 'vm/100',
    time: 1_700_000_000,
    images: { 'drive-scsi0.img': disk },
  });
  server = await PbsServer.start({ directory: store.path });
});
after(async () => {
  await server[Symbol.asyncDispose]();
  store[Symbol.dispose]();
});

function environment(): NodeJS.ProcessEnv {
  return {
    PBS_REPOSITORY: server.repository,
    PBS_FINGERPRINT: server.fingerprint,
    PBS_PASSWORD: testPassword,
  };
}

async function pbsfs(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<CliResult> {
  return await runCli(args, { env: { ...environment(), ...env } });
}

test('ls and cat read from a server as from a directory', async () => {
  const listed = await pbsfs(['ls', 'vm/100']);
  assert.equal(listed.stderr, '');
  assert.equal(listed.stdout.toString(), '2023-11-14T22:13:20Z\nlatest\n');
  const { code, stdout } = await pbsfs(['cat', image]);
  assert.equal(code, 0);
  assert.ok(stdout.equals(disk));
});

test('a mount shows a server, and its ready line names it as the user did', {
  skip: needs('fuse', ...(isRoot ? [] : ['fusermount3', 'koffi'])),
}, async () => {
  await using point = await temporaryMountPoint();
  await using mounted = await startMount([point.path], environment());
  assert.equal(mounted.stdout, `mounted ${server.repository} at ${point.path}\n`);
  assert.deepEqual(await readdir(point.path), ['vm']);
  assert.ok((await readFile(join(point.path, image))).equals(disk));
  assert.equal(await mounted.stop('SIGINT'), 0);
});

test('doctor walks to the server step by step', async () => {
  const { stdout } = await pbsfs(['doctor', '--json']);
  const checks = JSON.parse(stdout.toString()) as { name: string; status: string }[];
  const steps = checks.filter(({ name }) => name.startsWith('server '));
  const names = ['name', 'port', 'certificate', 'login', 'rights', 'chunk'];
  assert.deepEqual(
    steps,
    names.map((name) => ({
      ...steps.find((step) => step.name === `server ${name}`),
      status: 'ok',
    })),
  );
});

const failures: readonly (readonly [what: string, env: NodeJS.ProcessEnv, code: number, RegExp])[] =
  [
    ['a wrong password', { PBS_PASSWORD: 'not this one' }, 4, /reader@pbs/],
    ['a wrong fingerprint', { PBS_FINGERPRINT: 'ab'.repeat(32) }, 4, /ab:ab:ab/],
    ['no password and nobody to ask', { PBS_PASSWORD: undefined }, 4, /PBS_PASSWORD/],
    ['a server that is not there', { PBS_REPOSITORY: 'reader@pbs@127.0.0.1:1:store1' }, 7, /127/],
    ['a repository that is none', { PBS_REPOSITORY: 'user@pbs@store' }, 2, /user@pbs@store/],
  ];

for (const [what, env, exitCode, why] of failures) {
  test(`${what} ends with ${exitCode} and one line`, async () => {
    // What is worth another try is tried for a minute: this test asks doctor, which does not wait.
    const { code, stdout } = await pbsfs(['doctor'], env);
    assert.notEqual(code, 0);
    const failed = stdout
      .toString()
      .split('\n')
      .filter((line) => line.startsWith('FAIL'));
    assert.match(failed.join('\n'), why);
    const listed = await pbsfs(['ls'], env);
    assert.equal(listed.code, exitCode, listed.stderr);
    assert.equal(listed.stdout.length, 0);
    assert.match(listed.stderr, why);
    assert.equal(listed.stderr.split('\n').length, 2);
    for (const text of [listed.stderr, stdout.toString()]) {
      assert.equal(text.includes('not this one'), false);
    }
  });
}
