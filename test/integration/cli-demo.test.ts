/** `pbsfs demo`, where a mount is possible and where it is not. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { MountProcess } from '../cli/mounted.ts';
import { cleanEnvironment, program, startCli } from '../cli/run-cli.ts';
import { needs } from '../support/requirements.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const isRoot = process.getuid?.() === 0;

test('demo mounts real backups, each command that it proposes works, and nothing of it stays', {
  skip: needs('fuse', 'cmp', ...(isRoot ? [] : ['fusermount3', 'koffi'])),
  timeout: 60_000,
}, async () => {
  await using demo = new MountProcess(startCli(['demo']));
  await until('it tells how to end it', async () => demo.stdout.includes('Ctrl-C'));
  const [, store = '', point = ''] = /^mounted (\S+) at (\S+)$/m.exec(demo.stdout) ?? [];
  assert.match(demo.stdout, /vm\/100\/latest -> /);
  const commands = demo.stdout.split('\n').filter((line) => line.startsWith('  '));
  const proposed = commands
    .map((line) => line.trim())
    .filter((line) => /^(ls|head|cmp) /.test(line));
  assert.equal(proposed.length, 3);
  for (const command of proposed) {
    const [name = '', ...args] = command.split(' ');
    const { stdout } = await run(name, args).catch((error: { stdout: string }) => error);
    assert.match(
      stdout,
      { ls: /drive-scsi0\.img/, head: /line 1 of/, cmp: /differ/ }[name] ?? /$^/,
    );
  }
  assert.equal(await demo.stop('SIGINT'), 0);
  assert.equal(demo.stderr, '');
  assert.equal(existsSync(store), false);
  assert.equal(existsSync(point), false);
});

test('demo without the right to mount says what is missing and shows the same by ls and cat', {
  skip: needs('root', 'setpriv'),
  timeout: 60_000,
}, async () => {
  const drop = ['--bounding-set=-sys_admin', '--inh-caps=-sys_admin'];
  const child = spawn('setpriv', [...drop, process.execPath, program, 'demo'], {
    env: cleanEnvironment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (part: Buffer) => {
    output += part.toString();
  });
  assert.equal((await once(child, 'close'))[0], 0);
  assert.match(output, /This machine cannot mount it: \S.*/);
  assert.match(output, /^\$ node .* ls .*\ntotal \d+\n-r--r--r-- .* drive-scsi0\.img$/m);
  // The encrypted one, by its key.
  assert.match(output, /--keyfile .*\nname: demo-200$/m);
  const [, store = ''] = /(\S+datastore)$/m.exec(output) ?? [];
  assert.equal(existsSync(store), false);
});
