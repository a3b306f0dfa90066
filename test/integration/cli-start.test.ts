/** How bin/pbsfs.js gets to the right Node, and what of the caller's process survives that. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isMounted, MountProcess, temporaryMountPoint } from '../cli/mounted.ts';
import { cleanEnvironment, program } from '../cli/run-cli.ts';
import { temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';
import { needs } from '../support/requirements.ts';
import { until } from '../support/until.ts';

const oldNode = fileURLToPath(new URL('../cli/pretend-old-node.cjs', import.meta.url));
const isRoot = process.getuid?.() === 0;
const skipMounts = needs('fuse', ...(isRoot ? [] : ['fusermount3', 'koffi']));
const store = temporaryDatastore();

before(() => {
  writeSnapshot(store.path, {
    group: 'vm/100',
    time: 1_700_000_000,
    blobs: { 'qemu-server.conf': Buffer.from('cores: 2\n') },
  });
});
after(() => store[Symbol.dispose]());

/** The process that hands over, not the one that works. */
function startOnOldNode(args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn(process.execPath, ['-r', oldNode, program, ...args], {
    env: cleanEnvironment(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

async function mountOnOldNode(path: string): Promise<MountProcess> {
  const mounted = new MountProcess(startOnOldNode(['mount', store.path, path]));
  await until('the mount is up', async () => mounted.stdout.includes('\n'));
  return mounted;
}

test('a Node that is too old hands over, with output and exit code', async () => {
  const child = startOnOldNode(['ls', 'vm/1', 'vm'], { PBS_REPOSITORY: store.path });
  let output = '';
  child.stdout?.on('data', (part: Buffer) => {
    output += part.toString();
  });
  assert.equal((await once(child, 'close'))[0], 3);
  assert.equal(output, 'vm:\n100\n');
});

test('a signal to the one that hands over reaches the mount', { skip: skipMounts }, async () => {
  await using point = await temporaryMountPoint();
  await using mounted = await mountOnOldNode(point.path);
  assert.equal(await mounted.stop('SIGINT'), 0);
  assert.equal(await isMounted(point.path), false);
});

test('the mount goes when the one that handed over is killed', { skip: skipMounts }, async () => {
  await using point = await temporaryMountPoint();
  await using mounted = await mountOnOldNode(point.path);
  mounted.child.kill('SIGKILL');
  await until('nothing is mounted', async () => !(await isMounted(point.path)));
});

test('the thread pool is sized for the machine, unless the user has sized it', async () => {
  const script = `process.argv[1] = ${JSON.stringify(program)}; process.argv[2] = '--version';
    process.on('exit', () => console.log(process.env.UV_THREADPOOL_SIZE));
    import(${JSON.stringify(program)});`;
  const size = async (env: NodeJS.ProcessEnv): Promise<number> => {
    const child = spawn(process.execPath, ['-e', script], { env: cleanEnvironment(env) });
    let output = '';
    child.stdout.on('data', (part: Buffer) => {
      output += part.toString();
    });
    await once(child, 'close');
    return Number(output.trim().split('\n').at(-1));
  };
  // Two of the threads wait for the kernel all the time.
  assert.ok((await size({})) > 4);
  assert.equal(await size({ UV_THREADPOOL_SIZE: '7' }), 7);
});
