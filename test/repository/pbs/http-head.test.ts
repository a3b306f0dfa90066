import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import { readHttpHead, readSome } from '../../../src/repository/pbs/http-head.ts';
import { expectError } from '../../support/expect-error.ts';

/** A stream that looks like a socket to a reader. */
function fed(...pieces: readonly (string | Buffer)[]): Socket {
  const stream = new PassThrough();
  void (async () => {
    for (const piece of pieces) {
      stream.write(piece);
      await new Promise(setImmediate);
    }
    stream.end();
  })();
  return stream as unknown as Socket;
}

test('a head is read however it is cut, and what follows stays', async () => {
  const head = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade:  x\r\nX-Y: a: b\r\n\r\n';
  const whole = `${head}PRI * HTTP/2.0\r\n\r\n`;
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.nat(whole.length)), async (cuts) => {
      const bounds = [0, ...cuts.sort((a, b) => a - b), whole.length];
      const pieces = bounds.slice(1).map((end, i) => whole.slice(bounds[i], end));
      const socket = fed(...pieces.filter((piece) => piece !== ''));
      const { status, headers } = await readHttpHead(socket);
      assert.equal(status, 101);
      assert.deepEqual(
        [...headers],
        [
          ['upgrade', 'x'],
          ['x-y', 'a: b'],
        ],
      );
      let rest = '';
      for (let part = await readSome(socket); part !== undefined; part = await readSome(socket)) {
        rest += part;
      }
      assert.equal(head + rest, whole);
    }),
    { numRuns: 50 },
  );
});

test('what is no head is unreachable', async () => {
  const wrong = [
    '',
    'HTTP/1.1 200 OK\r\n',
    'HTTP/2 200\r\n\r\n',
    'SSH-2.0-OpenSSH\r\n\r\n',
    'HTTP/1.1 99999 X\r\n\r\n',
    Buffer.alloc(100_000, 'x'),
  ];
  for (const text of wrong) {
    await assert.rejects(
      readHttpHead(fed(text)),
      expectError('unreachable'),
      String(text).slice(0, 40),
    );
  }
});
