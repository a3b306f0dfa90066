/**
 * The least that reading an image from a server takes, in Node and untuned: upgrade, HTTP/2, so many chunks at once,
 * zstd and SHA-256 on the thread pool. Nothing is retried or kept, and none of the project's code runs.
 *
 *   PBS_PASSWORD=… node bare-loop.ts REPOSITORY VM_ID BACKUP_TIME ARCHIVE
 *
 * Prints seconds, processor time and memory as JSON.
 */
import { once } from 'node:events';
import http2, { type ClientHttp2Session } from 'node:http2';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { zstdDecompress } from 'node:zlib';
import type { Contestant, Sample } from './bench-case.ts';
import { imageName, snapshotOf } from './dataset.ts';
import { chunkSize } from './image-content.ts';
import { costOf, run } from './processes.ts';
import { portOf, startTestServer } from './test-server.ts';

/** Between 12 and 16 published measurements of the same job stopped to gain. */
const chunksAtOnce = 16;
const windowSize = 2 ** 30;
const maxFrameSize = 4 * 1024 * 1024;
const headerSize = 12;
const indexHeaderSize = 4096;
const digestSize = 32;
/** First byte of the magic of a zstd blob; encrypted ones do not occur here. */
const zstdMagic = 0x31;

export const bareLoopName = 'bare loop';

/**
 * @param timed `loop`: from the upgrade to the last chunk; `program`: the start of Node too, to compare with a command.
 */
export function bareLoop(store: string, id: string, timed: 'loop' | 'program'): Contestant {
  return {
    name: bareLoopName,
    run: async () => {
      await using server = await startTestServer(store);
      const snapshot = snapshotOf(id);
      const args = [server.repository, id, String(snapshot.time), `${imageName}.fidx`];
      const start = performance.now();
      const out = await run(process.execPath, [fileURLToPath(import.meta.url), ...args], {
        env: server.env,
      });
      const seconds = (performance.now() - start) / 1000;
      const sample = JSON.parse(out) as Sample;
      const counts = await server.counts();
      return timed === 'loop' ? { ...sample, counts } : { ...sample, seconds, counts };
    },
  };
}

const unpack = promisify(zstdDecompress);

async function main(args: readonly string[]): Promise<void> {
  const [repository = '', id = '', time = '', archive = ''] = args;
  const port = portOf(repository);
  const [user = ''] = repository.split('@127.');
  const cookie = await logIn(port, user, process.env['PBS_PASSWORD'] ?? '');
  const start = performance.now();
  const query = `backup-type=vm&backup-id=${id}&backup-time=${time}&store=${repository.split(':')[2]}`;
  const session = await upgrade(port, `/api2/json/reader?${query}`, cookie);
  await readImage(session, archive);
  const seconds = (performance.now() - start) / 1000;
  session.destroy();
  console.log(JSON.stringify({ seconds, ...costOf(process.pid) }));
}

async function logIn(port: number, username: string, password: string): Promise<string> {
  const request = https.request({
    ...{ host: '127.0.0.1', port, path: '/api2/json/access/ticket', method: 'POST', agent: false },
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    rejectUnauthorized: false,
  });
  const answered = once(request, 'response');
  request.end(new URLSearchParams({ username, password }).toString());
  const [response] = await answered;
  const { data } = JSON.parse(await text(response)) as { data: { ticket: string } };
  return `PBSAuthCookie=${encodeURIComponent(data.ticket)}`;
}

async function upgrade(port: number, path: string, cookie: string): Promise<ClientHttp2Session> {
  const request = https.request({
    ...{ host: '127.0.0.1', port, path, agent: false, rejectUnauthorized: false },
    headers: {
      cookie,
      connection: 'upgrade',
      upgrade: 'proxmox-backup-reader-protocol-v1',
    },
  });
  const upgraded = once(request, 'upgrade');
  request.end();
  const [, socket, rest] = await upgraded;
  socket.setNoDelay(true);
  if (rest.length > 0) socket.unshift(rest);
  const session = http2.connect(`https://127.0.0.1:${port}`, {
    createConnection: () => socket,
    maxSessionMemory: 2000,
    settings: { initialWindowSize: windowSize, maxFrameSize, enablePush: false },
  });
  session.once('connect', () => session.setLocalWindowSize(windowSize));
  return session;
}

function get(session: ClientHttp2Session, path: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':path': path });
    const parts: Buffer[] = [];
    stream.on('data', (bytes: Buffer) => parts.push(bytes));
    stream.on('end', () => resolve(Buffer.concat(parts)));
    stream.on('error', reject);
    stream.end();
  });
}

async function readImage(session: ClientHttp2Session, archive: string): Promise<void> {
  const index = await get(session, `/download?file-name=${archive}`);
  const zero = await digestOf(Buffer.alloc(chunkSize));
  let at = indexHeaderSize;
  const readChunks = async (): Promise<void> => {
    while (at < index.length) {
      const digest = index.toString('hex', at, at + digestSize);
      at += digestSize;
      if (digest !== zero) await readChunk(session, digest);
    }
  };
  await Promise.all(Array.from({ length: chunksAtOnce }, readChunks));
}

async function readChunk(session: ClientHttp2Session, digest: string): Promise<void> {
  await decodeOnPool(await get(session, `/chunk?digest=${digest}`), digest);
}

/** Unpacks and hashes one chunk on Node's thread pool. */
export async function decodeOnPool(raw: Buffer, digest: string): Promise<void> {
  const payload = raw.subarray(headerSize);
  const bytes =
    raw[0] === zstdMagic
      ? await unpack(payload, { chunkSize, maxOutputLength: chunkSize })
      : payload;
  if ((await digestOf(bytes)) !== digest) throw new Error(`chunk ${digest} is damaged`);
}

async function digestOf(bytes: Uint8Array): Promise<string> {
  return Buffer.from(
    await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>),
  ).toString('hex');
}

if (import.meta.main) await main(process.argv.slice(2));
