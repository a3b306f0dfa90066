/** The test server answers as the real server did: each capture of golden/server is asked again. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, suite, test } from 'node:test';
import tls from 'node:tls';
import { fileURLToPath } from 'node:url';
import { openPbs } from '../../src/repository/pbs/pbs-repository.ts';
import { parseRepositoryString } from '../../src/repository/pbs/repository-string.ts';
import { temporaryDatastore } from '../support/encode-datastore.ts';
import { goldenPath, goldenStore, readGolden } from '../support/golden.ts';
import { type Account, allRights } from '../support/pbs-server/access.ts';
import { PbsServer } from '../support/pbs-server/server.ts';
import { needs } from '../support/requirements.ts';

const secret = '00000000-aaaa-bbbb-cccc-000000000000';
const reader = ['Datastore.Audit', 'Datastore.Read', 'Datastore.Verify'];
const accounts: readonly Account[] = [
  { authId: 'root@pam!tok', secret, acl: { '/': allRights } },
  { authId: 'fixture@pbs', secret: 'fixture-password', acl: { '/': reader } },
  {
    authId: 'fixture@pbs!backup',
    secret,
    acl: { '/datastore/store1': ['Datastore.Backup'] },
  },
  { authId: 'fixture@pbs!noperm', secret, acl: {} },
  { authId: 'fixture@pbs!ns1only', secret, acl: { '/datastore/store1/ns1': reader } },
];

interface Capture {
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly form: object | null;
  };
  readonly curl: string;
  readonly status: number;
  readonly headers: readonly string[];
  readonly body?: unknown;
  readonly body_text?: string;
  readonly body_sha256?: string;
  readonly body_len?: number;
}

/** Calls that no reader makes, so that the test server does not have them. */
const notServed =
  /^(catalog-|datastore-index|datastore-usage|domains|download-decoded|misc_|pxar-file|ticket-use-post|permissions|status-verbose)/;
/** Numbers and secrets that differ from run to run: only the shape is compared. */
const volatile = /^(status|ticket)\.json$/;
/** Groups that came into the store after the captures were made. */
const later = /^(host\/split|host\/splitenc|vm\/300)$/;

interface Answer {
  readonly status: number;
  readonly headers: http2.IncomingHttpHeaders;
  readonly body: Buffer;
}

function shape(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shape);
  if (typeof value !== 'object' || value === null) return typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shape(inner)]));
}

/** Listings come in the order of the directory: compared as sets. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value
      .map(sorted)
      .filter((entry) => {
        const { 'backup-type': type, 'backup-id': id } = Object(entry) as Record<string, unknown>;
        return !later.test(`${type}/${id}`);
      })
      .sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  }
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, sorted(inner)] as const);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

suite('the test server and the captures of the real one', { skip: needs('golden') }, () => {
  let server: PbsServer;
  let directory: string;

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'pbsfs-store-'));
    cpSync(goldenStore, directory, { recursive: true });
    mkdirSync(join(directory, 'ns/ns1/ns/empty'));
    server = await PbsServer.start({ directory, accounts });
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true });
  });

  function ask(capture: Capture): Promise<Answer> {
    const headers: Record<string, string> = {};
    for (const [, name = '', value = ''] of capture.curl.matchAll(/-H '([^:]+): ([^']+)'/g)) {
      headers[name] = value;
    }
    const body =
      capture.request.form && new URLSearchParams({ ...capture.request.form }).toString();
    return new Promise((resolve, reject) => {
      const request = https.request(
        {
          host: '127.0.0.1',
          port: server.port,
          method: capture.request.method,
          path: capture.request.path,
          headers,
          rejectUnauthorized: false,
          agent: false,
        },
        async (response) => {
          const parts: Buffer[] = await response.toArray();
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(parts),
          });
        },
      );
      request.on('error', reject);
      request.end(body ?? undefined);
    });
  }

  test('REST answers have the captured status, type, framing and content', async () => {
    let compared = 0;
    for (const name of readdirSync(goldenPath('server/rest'))) {
      if (notServed.test(name)) continue;
      const capture = JSON.parse(
        readFileSync(goldenPath(`server/rest/${name}`), 'utf8'),
      ) as Capture;
      if (name === 'ticket-use-get.json') continue; // its ticket is another server's
      const answer = await ask(capture);
      assert.equal(answer.status, capture.status, name);
      for (const header of ['content-type', 'transfer-encoding']) {
        const captured = capture.headers.find((line) => line.startsWith(`${header}: `));
        const value = answer.headers[header];
        assert.equal(value === undefined ? undefined : `${header}: ${value}`, captured, name);
      }
      compareBodies(name, answer.body, capture);
      compared += 1;
    }
    assert.ok(compared > 60, `${compared} captures compared`);
  });

  function compareBodies(name: string, body: Buffer, capture: Capture): void {
    if (capture.body !== undefined) {
      const json: unknown = JSON.parse(body.toString());
      const same = volatile.test(name) ? shape : sorted;
      assert.deepEqual(same(json), same(capture.body), name);
    } else if (capture.body_text !== undefined) {
      assert.equal(body.toString(), capture.body_text, name);
    } else {
      assert.equal(body.length, capture.body_len, name);
      assert.equal(hash('sha256', body), capture.body_sha256, name);
    }
  }

  /** Sends the head of a captured upgrade on a new TLS connection. */
  async function sendUpgrade(lines: readonly string[], sent = secret): Promise<tls.TLSSocket> {
    const socket = tls.connect({ host: '127.0.0.1', port: server.port, rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    socket.write(`${lines.join('\r\n').replace('<secret>', sent)}\r\n\r\n`);
    return socket;
  }

  test('refused upgrades have the captured status and text', async () => {
    const exchanges = readGolden('server/wire/upgrade-errors.txt')
      .toString()
      .split(/^# TLS.*\n/m);
    let compared = 0;
    for (const exchange of exchanges.slice(1)) {
      const [line = '', ...headers] = linesOf(exchange, '< ');
      const wrong = line.includes('401');
      const socket = await sendUpgrade(linesOf(exchange, '> '), wrong ? 'wrong' : secret);
      const answer = Buffer.concat((await socket.toArray()) as Buffer[]).toString();
      assert.ok(answer.startsWith(`${line}\r\n`), answer);
      const [, body = ''] = /^body: (".*")$/.exec(headers.pop() ?? '') ?? [];
      assert.ok(answer.endsWith(`\r\n\r\n${JSON.parse(body)}`), answer);
      const typed = headers.some((header) => header.startsWith('content-type'));
      assert.equal(answer.includes('content-type: application/json;charset=UTF-8'), typed);
      compared += 1;
    }
    assert.equal(compared, 5);
  });

  test('a reader session answers as captured', { timeout: 20_000 }, async () => {
    const lines = readGolden('server/wire/session.txt').toString().split('\n');
    const first = lines.findIndex((line) => line.startsWith('> GET /chunk'));
    const socket = await sendUpgrade(linesOf(lines.slice(0, first).join('\n'), '> '));
    const [head] = (await once(socket, 'data')) as [Buffer];
    assert.match(head.toString(), /^HTTP\/1\.1 101 Switching Protocols\r\n/);
    assert.ok(head.toString().endsWith('\r\n\r\n'), 'nothing behind the head yet');
    socket.pause();
    const session = http2.connect('https://localhost', { createConnection: () => socket });
    await once(session, 'remoteSettings');
    assert.equal(session.remoteSettings.initialWindowSize, 33_554_432);
    assert.equal(session.remoteSettings.maxFrameSize, 4_194_304);
    let compared = 0;
    for (let at = first; at + 2 < lines.length; at += 3) {
      const path = /^> GET (.*)$/.exec(lines[at] ?? '')?.[1];
      if (path === undefined) break;
      const captured = JSON.parse((lines[at + 1] ?? '').slice(2)) as http2.IncomingHttpHeaders;
      const answer = await getHttp2(session, path);
      for (const name of [':status', 'content-type', 'content-length'] as const) {
        // The length of a text that names a directory differs with the directory.
        if (name === 'content-length' && /srv.store1/.test(lines[at + 2] ?? '')) continue;
        assert.equal(String(answer.headers[name]), String(captured[name]), `${path} ${name}`);
      }
      compareCapturedBody(path, answer.body, lines[at + 2] ?? '');
      compared += 1;
    }
    assert.equal(compared, 14);
    session.destroy();
  });

  function compareCapturedBody(path: string, body: Buffer, line: string): void {
    const [, sha256] = /sha256 ([0-9a-f]{64})/.exec(line) ?? [];
    if (sha256 !== undefined) {
      assert.equal(hash('sha256', body), sha256, path);
      return;
    }
    const text = JSON.parse(/^< body \d+ bytes: (.*)$/.exec(line)?.[1] ?? '""') as string;
    assert.equal(body.toString().replaceAll(directory, '/srv/store1'), text, path);
  }
});

suite('the test server on its own', () => {
  const main = fileURLToPath(new URL('../support/pbs-server/main.ts', import.meta.url));

  async function run(...args: string[]) {
    const child = spawn(process.execPath, [main, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
    const ready = JSON.parse(line) as Record<'repository' | 'password' | 'fingerprint', string>;
    // Not left behind when a test fails.
    return { child, ready, [Symbol.dispose]: () => void child.kill() };
  }

  test('says where it is, can be told to misbehave, and stops with its standard input', async () => {
    using store = temporaryDatastore();
    using server = await run(store.path, '--switches', '{"ticketLifetime": 60}');
    const { child, ready } = server;
    const settings = {
      ...parseRepositoryString(ready.repository),
      fingerprint: ready.fingerprint,
      secret: async () => ready.password,
    };
    await using repository = await openPbs(settings);
    const { port } = settings;
    const faults = [{ on: 'list', fault: 'status-503', count: 1 }];
    const request = https.request({
      ...{ host: '127.0.0.1', port, path: '/test/control', method: 'POST', agent: false },
      rejectUnauthorized: false,
    });
    request.end(JSON.stringify({ faults }));
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.resume();
    await assert.rejects(repository.listGroups([]), /503/);
    assert.deepEqual(await repository.listGroups([]), []);
    child.stdin.end();
    const [code] = (await once(child, 'exit')) as [number];
    assert.equal(code, 0);
  });

  test('stops on SIGTERM', async () => {
    using store = temporaryDatastore();
    using server = await run(store.path);
    const { child } = server;
    child.kill('SIGTERM');
    const [code] = (await once(child, 'exit')) as [number];
    assert.equal(code, 0);
  });
});

function linesOf(exchange: string, prefix: string): string[] {
  return exchange
    .split('\n')
    .filter((line) => line.startsWith(prefix))
    .map((line) => line.slice(prefix.length));
}

async function getHttp2(
  session: http2.ClientHttp2Session,
  path: string,
): Promise<{ headers: http2.IncomingHttpHeaders; body: Buffer }> {
  const stream = session.request({ ':path': path });
  const [headers] = (await once(stream, 'response')) as [http2.IncomingHttpHeaders];
  return { headers, body: Buffer.concat((await stream.toArray()) as Buffer[]) };
}
