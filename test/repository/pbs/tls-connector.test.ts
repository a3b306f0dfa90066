import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import tls from 'node:tls';
import { parseFingerprint } from '../../../src/formats/fingerprint.ts';
import { openPbs } from '../../../src/repository/pbs/pbs-repository.ts';
import {
  TlsConnector,
  type TlsConnectorOptions,
} from '../../../src/repository/pbs/tls-connector.ts';
import { temporaryDatastore } from '../../support/encode-datastore.ts';
import { expectError } from '../../support/expect-error.ts';
import {
  type CertificateName,
  readCertificate,
  readTestCa,
} from '../../support/pbs-server/certificates.ts';
import { settingsFor } from '../../support/pbs-server/connect.ts';
import { startProxy } from '../../support/pbs-server/proxy.ts';
import { PbsServer } from '../../support/pbs-server/server.ts';

interface TlsPeer extends AsyncDisposable {
  readonly port: number;
  /** Bytes that came out of TLS. */
  readonly received: () => number;
}

async function tlsPeer(name: CertificateName): Promise<TlsPeer> {
  let received = 0;
  const server = tls.createServer(readCertificate(name), (socket) => {
    socket.on('data', (bytes) => {
      received += bytes.length;
    });
    socket.on('error', () => {});
  });
  server.on('tlsClientError', () => {});
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    received: () => received,
    async [Symbol.asyncDispose]() {
      server.close();
    },
  };
}

/** Connects once and hangs up. */
async function connectTo(
  port: number,
  options: Partial<TlsConnectorOptions> = {},
): Promise<string> {
  using connector = new TlsConnector({ host: '127.0.0.1', port, deadline: 5000, ...options });
  const socket = await connector.connect();
  const protocol = String(socket.alpnProtocol);
  socket.destroy();
  return protocol;
}

function fingerprint(name: CertificateName): Buffer | undefined {
  return parseFingerprint(readCertificate(name).fingerprint);
}

suite('the certificate of a server', () => {
  test('is accepted when its own SHA-256 is the fingerprint, and no ALPN is spoken', async () => {
    await using peer = await tlsPeer('self-signed');
    const protocol = await connectTo(peer.port, { fingerprint: fingerprint('self-signed') });
    assert.equal(protocol, 'false');
  });

  test('is accepted when a known CA signed it for that name, whatever the fingerprint', async () => {
    await using peer = await tlsPeer('ca-signed');
    const ca = [readTestCa()];
    for (const host of ['127.0.0.1', 'localhost']) {
      await connectTo(peer.port, { host, ca });
      await connectTo(peer.port, { host, ca, fingerprint: fingerprint('replaced') });
    }
  });

  test('is refused in every other case, before a byte of a request is written', async () => {
    const ca = [readTestCa()];
    const rows: readonly [CertificateName, Partial<TlsConnectorOptions>, RegExp][] = [
      ['self-signed', {}, /it is self-signed; its fingerprint is b3:1d:/],
      [
        'self-signed',
        { fingerprint: fingerprint('replaced') },
        /has fingerprint b3:1d:.*expected is /,
      ],
      ['replaced', { fingerprint: fingerprint('self-signed') }, /expected is b3:1d:/],
      ['ca-signed', {}, /its CA is not known here/],
      ['wrong-name', { ca }, /it is for another name/],
      ['wrong-name', { ca, fingerprint: fingerprint('ca-signed') }, /it is for another name/],
    ];
    for (const [name, options, message] of rows) {
      await using peer = await tlsPeer(name);
      await assert.rejects(connectTo(peer.port, options), expectError('access-denied', message));
      assert.equal(peer.received(), 0);
    }
    await using named = await tlsPeer('wrong-name');
    await connectTo(named.port, { ca, fingerprint: fingerprint('wrong-name') });
  });

  test('may be given with any case, with or without colons', async () => {
    using store = temporaryDatastore();
    await using server = await PbsServer.start({ directory: store.path });
    const shown = server.fingerprint;
    const forms = [
      shown,
      shown.toLowerCase(),
      shown.replaceAll(':', ''),
      shown.toLowerCase().replaceAll(':', ''),
      ` ${shown}\n`,
    ];
    for (const form of forms) {
      await using repository = await openPbs(settingsFor(server, { fingerprint: form }));
      assert.deepEqual(await repository.listNamespaces([]), []);
    }
    for (const form of [shown.slice(3), `${shown}:00`, 'sha256', shown.replace('B', 'G')]) {
      await assert.rejects(
        openPbs(settingsFor(server, { fingerprint: form })),
        expectError('usage'),
      );
    }
  });

  test('can be confirmed by the user: asked once for all connections, and remembered', async () => {
    await using peer = await tlsPeer('self-signed');
    const questions: unknown[] = [];
    using connector = new TlsConnector({
      host: '127.0.0.1',
      port: peer.port,
      deadline: 5000,
      confirmFingerprint: async (question) => {
        questions.push(question);
        return true;
      },
    });
    const sockets = await Promise.all([
      connector.connect(),
      connector.connect(),
      connector.connect(),
    ]);
    sockets.push(await connector.connect());
    for (const socket of sockets) socket.destroy();
    assert.deepEqual(questions, [
      {
        place: `127.0.0.1:${peer.port}`,
        seen: readCertificate('self-signed').fingerprint.toLowerCase(),
        expected: undefined,
        fault: 'it is self-signed',
      },
    ]);
    const refused = connectTo(peer.port, { confirmFingerprint: async () => false });
    await assert.rejects(refused, expectError('access-denied'));
    assert.equal(peer.received(), 0);
  });
});

suite('a connection', () => {
  test('that is not made says why', async (t) => {
    const silent = net
      .createServer((socket) => socket.on('error', () => {}))
      .listen(0, '127.0.0.1');
    const plain = http.createServer((_, answer) => answer.end('hello')).listen(0, '127.0.0.1');
    const closing = net.createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
    await Promise.all([silent, plain, closing].map((server) => once(server, 'listening')));
    t.after(() => [silent, plain, closing].map((server) => server.close()));
    const port = (server: net.Server) => (server.address() as AddressInfo).port;
    await assert.rejects(
      connectTo(port(silent), { deadline: 50 }),
      expectError('timeout', /50 ms/),
    );
    await assert.rejects(connectTo(port(plain)), expectError('unreachable', /TLS/));
    await assert.rejects(connectTo(port(closing)), expectError('unreachable'));
    await assert.rejects(connectTo(1), expectError('unreachable', /nothing listens/));
    const nameless = connectTo(1, { host: 'does-not-exist.invalid' });
    await assert.rejects(nameless, expectError('unreachable', /cannot be resolved/));
  });

  test('is given up at once by its signal, and by closing', async (t) => {
    const silent = net
      .createServer((socket) => socket.on('error', () => {}))
      .listen(0, '127.0.0.1');
    await once(silent, 'listening');
    t.after(() => silent.close());
    const { port } = silent.address() as AddressInfo;
    const connector = new TlsConnector({ host: '127.0.0.1', port, deadline: 60_000 });
    const controller = new AbortController();
    const given = connector.connect(controller.signal);
    const kept = connector.connect();
    setTimeout(() => controller.abort(), 20);
    await assert.rejects(given, expectError('aborted'));
    connector[Symbol.dispose]();
    await assert.rejects(kept, expectError('aborted', /closed/));
    await assert.rejects(connector.connect(), expectError('aborted', /closed/));
  });
});

suite('a proxy', () => {
  test('carries everything, certificate check included', async () => {
    using store = temporaryDatastore();
    await using server = await PbsServer.start({ directory: store.path });
    await using through = await startProxy(server.port, 'user:p@ss');
    const { proxy } = through;
    await using repository = await openPbs(settingsFor(server, { proxy }));
    assert.deepEqual(await repository.listGroups([]), []);
    assert.match(through.requests[0] ?? '', /^CONNECT 127\.0\.0\.1:\d+ HTTP\/1\.1\r\nHost: 127/);
    const wrong = settingsFor(server, { proxy, fingerprint: '00'.repeat(32) });
    await assert.rejects(openPbs(wrong), expectError('access-denied', /expected/));
  });

  test('writes an IPv6 target in brackets', async () => {
    await using peer = await tlsPeer('self-signed');
    await using through = await startProxy(peer.port);
    const options = {
      host: '[::1]',
      proxy: through.proxy,
      fingerprint: fingerprint('self-signed'),
    };
    await connectTo(peer.port, options);
    assert.match(through.requests[0] ?? '', /^CONNECT \[::1\]:\d+ HTTP/);
  });

  test('that refuses says so', async () => {
    await using asking = await startProxy(1, 'user:secret');
    const anonymous = { ...asking.proxy, credentials: undefined };
    await assert.rejects(
      connectTo(8007, { proxy: anonymous }),
      expectError('access-denied', /user and password/),
    );
    await using refusing = await startProxy(0);
    await assert.rejects(
      connectTo(8007, { proxy: refusing.proxy }),
      expectError('unreachable', /status 403/),
    );
    await using broken = await startProxy(1);
    await assert.rejects(connectTo(8007, { proxy: broken.proxy }), expectError('unreachable'));
  });
});
