/** The test server of the project, in a process of its own, over a datastore directory. */
import { once } from 'node:events';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Counts } from './bench-case.ts';
import { startServer, stopServer } from './processes.ts';

const program = fileURLToPath(new URL('../../test/support/pbs-server/main.ts', import.meta.url));

export interface TestServer extends AsyncDisposable {
  readonly repository: string;
  /** What a client has to be told, in environment variables. */
  readonly env: NodeJS.ProcessEnv;
  /** Requests, and chunks among them, since it was started. */
  counts(): Promise<Counts>;
}

/** @param latency milliseconds that each answer comes later. */
export async function startTestServer(store: string, latency = 0): Promise<TestServer> {
  // Not by the server's own bad line: that relays every byte, which takes a seventh of what the server and a client take.
  const args = [program, store, '--switches', JSON.stringify({ answerDelay: latency })];
  const { child, line } = await startServer(process.execPath, args);
  const { repository, password, fingerprint } = JSON.parse(line) as Record<
    'repository' | 'password' | 'fingerprint',
    string
  >;
  return {
    repository,
    env: { PBS_PASSWORD: password, PBS_FINGERPRINT: fingerprint },
    counts: () => readCounts(portOf(repository)),
    [Symbol.asyncDispose]: () => stopServer(child),
  };
}

/** Of `user@realm@host:port:datastore`. */
export function portOf(repository: string): number {
  return Number(repository.split(':')[1]);
}

async function readCounts(port: number): Promise<Counts> {
  const request = https.request({
    ...{ host: '127.0.0.1', port, path: '/test/control', method: 'POST', agent: false },
    // Our own server on this machine.
    rejectUnauthorized: false,
  });
  const answered = once(request, 'response');
  request.end('{}');
  const [response] = await answered;
  return JSON.parse(await text(response)) as Counts;
}
