import assert from 'node:assert/strict';
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { readSome } from '../../../src/repository/pbs/http-head.ts';
import { upgrade } from '../../../src/repository/pbs/upgrade.ts';
import { expectError } from '../../support/expect-error.ts';

const request = { path: '//api2/json/reader?store=s', host: 'h:8007', headers: { Cookie: 'x' } };

/** Sends the request to a peer that answers with these bytes, and gives what the peer got. */
async function exchange<T>(answer: string, use: (socket: TLSSocket) => Promise<T>) {
  let received = '';
  const server = net.createServer((peer) => {
    peer.on('error', () => {});
    peer.on('data', (bytes) => {
      received += bytes;
      if (received.endsWith('\r\n\r\n')) peer.write(answer);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return { result: await use(socket as TLSSocket), received };
  } finally {
    socket.destroy();
    server.close();
  }
}

test('an upgrade keeps what comes behind the 101, whatever headers it has', async () => {
  for (const headers of ['Connection: upgrade\r\nUpgrade: other\r\n', '']) {
    const answer = `HTTP/1.1 101 Switching Protocols\r\n${headers}\r\nSETTINGS`;
    const { result, received } = await exchange(answer, async (socket) => {
      const { status } = await upgrade(socket, request);
      return [status, String(await readSome(socket))];
    });
    assert.deepEqual(result, [101, 'SETTINGS']);
    assert.equal(
      received,
      'GET //api2/json/reader?store=s HTTP/1.1\r\nHost: h:8007\r\nConnection: upgrade\r\nUpgrade: proxmox-backup-reader-protocol-v1\r\nCookie: x\r\n\r\n',
    );
  }
});

test('a refusal comes with its status and text, however it is framed', async () => {
  const rows: readonly [string, number, string][] = [
    ['HTTP/1.1 400 Bad Request\r\ncontent-length: 7\r\n\r\nno such', 400, 'no such'],
    ['HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n', 403, ''],
    ['HTTP/1.1 502 X\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n<html>\r\n0\r\n\r\n', 502, '<html>'],
    ['HTTP/1.1 401 X\r\n\r\nauthentication failed', 401, 'authentication failed'],
    ['HTTP/1.1 400 X\r\ncontent-length: many\r\n\r\n', 400, ''],
  ];
  for (const [answer, status, text] of rows) {
    const { result } = await exchange(answer, (socket) => upgrade(socket, request));
    assert.equal(result.status, status);
    assert.ok(String(result.body).startsWith(text), String(result.body));
  }
  const other = exchange('SSH-2.0-x\r\n\r\n', (socket) => upgrade(socket, request));
  await assert.rejects(other, expectError('unreachable'));
});
