#!/usr/bin/env node
// Starts pbsfs: dist/ in the package, the TypeScript sources in a checkout. Two things must happen before:
// the thread pool gets its size (libuv reads it once, at the first use), and a Node that is too old hands
// over to the one that `npm ci` puts into the checkout. It must itself run on such an old Node.
import { spawn } from 'node:child_process';
import { existsSync, fstatSync, mkdirSync, statSync } from 'node:fs';
import * as module from 'node:module';
import * as os from 'node:os';
import { fileURLToPath } from 'node:url';
import * as v8 from 'node:v8';

const neededMajor = 24;
const ownNode = fileURLToPath(new URL('../node_modules/node/bin/node', import.meta.url));
const relaySignals = ['SIGINT', 'SIGTERM', 'SIGHUP'];

function fail(message) {
  process.stderr.write(`pbsfs: ${message}\n`);
  process.exit(1);
}

/** Descriptors that the arguments or the environment speak of; Node closes them for a child otherwise. */
function namedDescriptors() {
  const environment = Object.entries(process.env).filter(([name]) =>
    /^PBS_\w+_(FD|FILE)$/.test(name),
  );
  const texts = [
    ...process.argv.slice(2),
    ...environment.map(([name, value]) => (name.endsWith('_FD') ? `/dev/fd/${value}` : value)),
  ];
  const numbers = texts.flatMap((text) =>
    [...text.matchAll(/\/(?:dev|proc\/self)\/fd\/(\d+)/g)].map((match) => Number(match[1])),
  );
  return numbers.filter((fd) => {
    try {
      return fd > 2 && fstatSync(fd) !== undefined;
    } catch {
      return false;
    }
  });
}

/** Runs the same command on another Node, in this process where Node can do that. */
function handOver(node) {
  const args = [...process.execArgv, ...process.argv.slice(1)];
  if (process.execve) process.execve(node, [node, ...args], process.env);
  const inherited = [0, 1, 2, ...namedDescriptors()];
  // Without gaps: Node would close the ranks, and the descriptors get other numbers.
  const stdio = Array(Math.max(...inherited) + 1).fill('ignore');
  for (const fd of inherited) stdio[fd] = fd;
  // The channel tells the child when this process dies without a word (kill -9).
  stdio.push('ipc');
  const child = spawn(node, args, { stdio, env: { ...process.env, PBSFS_RELAYED: '1' } });
  child.on('error', (error) => fail(`cannot run ${node}: ${error.message}`));
  for (const signal of relaySignals) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    for (const name of relaySignals) process.removeAllListeners(name);
    process.kill(process.pid, signal);
  });
}

/**
 * Keeps what Node compiles, and the sources without their types, for the next start: it takes a third of the time
 * then, and 30 MB less for each thread. Only below a home that is ours: others could leave code there for us to run.
 */
function keepCompiled() {
  const { HOME: home, XDG_CACHE_HOME: cacheHome, NODE_COMPILE_CACHE: chosen } = process.env;
  if (!home || chosen !== undefined) return;
  const caches = cacheHome || `${home}/.cache`;
  const directory = `${caches}/pbsfs/compiled`;
  try {
    if (statSync(home).uid !== process.getuid?.()) return;
    // One by one: Node's way to make all of a path never ends where a filesystem refuses it oddly (/proc).
    for (const path of [caches, `${caches}/pbsfs`, directory]) {
      if (!existsSync(path)) mkdirSync(path, { mode: 0o700 });
    }
  } catch {
    return;
  }
  // The environment tells the threads too.
  process.env.NODE_COMPILE_CACHE = directory;
  module.enableCompileCache(directory);
}

async function start() {
  keepCompiled();
  // Chunks come and go outside of the heap, which is small. Collecting it bit by bit, V8 starts anew with every
  // 64 MiB that come, and takes a fifth of the time of a read from a server.
  v8.setFlagsFromString('--no-incremental-marking');
  process.env.UV_THREADPOOL_SIZE ??= String(os.availableParallelism() + 4);
  if (process.env.PBSFS_RELAYED === '1' && process.connected) {
    delete process.env.PBSFS_RELAYED;
    process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
    process.channel.unref();
  }
  const sources = new URL('../src/cli/main.ts', import.meta.url);
  const inCheckout = existsSync(sources);
  try {
    const { main } = await import(
      inCheckout ? sources : new URL('../dist/cli/main.js', import.meta.url)
    );
    await main(process.argv);
  } catch (error) {
    if (!inCheckout || error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    fail(`${error.message} (run 'npm ci' in the checkout first)`);
  }
}

if (Number.parseInt(process.versions.node, 10) >= neededMajor) {
  await start();
} else if (existsSync(ownNode)) {
  handOver(ownNode);
} else {
  fail(`needs Node ${neededMajor} or newer, this is ${process.version} (see https://nodejs.org)`);
}
