/**
 * The test server on its own: `npm run test-server -- DIR [--switches JSON]`. Prints one JSON line with
 * `repository`, `password` and `fingerprint` once it listens on 127.0.0.1, and stops when its standard
 * input (a pipe or a terminal) ends, when whoever started it is gone, or on SIGTERM. The same JSON posted to `/test/control`
 * changes the switches while it runs; the answer has the number of requests and of chunks so far.
 */
import { fstatSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { QueuedFault } from './faults.ts';
import type { LinkOptions } from './link.ts';
import { PbsServer, testPassword } from './server.ts';

interface Switches {
  readonly faults?: readonly QueuedFault[];
  /** Milliseconds. */
  readonly authDelay?: number;
  readonly loginDelay?: number;
  readonly answerDelay?: number;
  /** Seconds. */
  readonly ticketLifetime?: number;
  readonly clockOffset?: number;
  readonly link?: LinkOptions & { readonly blackhole?: boolean };
  /** Milliseconds that the server stays down. */
  readonly restart?: number;
  readonly dropConnections?: boolean;
}

async function applySwitches(server: PbsServer, switches: Switches): Promise<void> {
  for (const fault of switches.faults ?? []) server.faults.add(fault);
  server.authDelay = switches.authDelay ?? server.authDelay;
  server.loginDelay = switches.loginDelay ?? server.loginDelay;
  server.answerDelay = switches.answerDelay ?? server.answerDelay;
  server.access.ticketLifetime = switches.ticketLifetime ?? server.access.ticketLifetime;
  server.access.clockOffset = switches.clockOffset ?? server.access.clockOffset;
  if (server.link !== undefined) Object.assign(server.link, switches.link);
  if (switches.dropConnections === true) server.dropConnections();
  // Later, so that the request that asks for it is answered first.
  if (switches.restart !== undefined) setTimeout(() => void server.restart(switches.restart), 10);
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    switches: { type: 'string', default: '{}' },
    port: { type: 'string', default: '0' },
    store: { type: 'string', default: 'store1' },
  },
});
const [directory] = positionals;
if (directory === undefined) {
  console.error('usage: npm run test-server -- DIR [--port N] [--store NAME] [--switches JSON]');
  process.exit(2);
}
const switches = JSON.parse(values.switches) as Switches;
const server = await PbsServer.start({
  directory,
  store: values.store,
  port: Number(values.port),
  authDelay: 3000,
  ...(switches.link === undefined ? {} : { link: switches.link }),
});
await applySwitches(server, switches);
server.onControl = async (body) => {
  await applySwitches(server, JSON.parse(body) as Switches);
  return { requests: server.requests.length, chunks: server.count('chunk') };
};
async function stop(): Promise<void> {
  await server[Symbol.asyncDispose]();
  process.exit(0);
}
process.on('SIGTERM', stop);
process.on('SIGINT', stop);
// A background job gets /dev/null, which ends at once and means nothing.
const input = fstatSync(0);
if (process.stdin.isTTY || input.isFIFO() || input.isSocket())
  process.stdin.on('end', stop).resume();
const parent = process.ppid;
setInterval(() => {
  if (process.ppid !== parent) void stop();
}, 1000);

const { repository, fingerprint } = server;
process.stdout.write(`${JSON.stringify({ repository, password: testPassword, fingerprint })}\n`);
