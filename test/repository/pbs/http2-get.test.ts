import assert from 'node:assert/strict';
import { once } from 'node:events';
import http2, { type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Http2Answer,
  type Http2Request,
  http2Get,
} from '../../../src/repository/pbs/http2-get.ts';
import { expectError } from '../../support/expect-error.ts';

const body = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251));
const deadlines = {
  connect: 5000,
  headers: 5000,
  chunk: 5000,
  progress: 5000,
  ping: 5000,
  idle: 5000,
};

suite('a GET over HTTP/2', () => {
  let serve: (stream: ServerHttp2Stream) => void = () => {};
  const server = http2.createServer();
  let session: http2.ClientHttp2Session;

  before(async () => {
    server.on('stream', (stream) => {
      stream.on('error', () => {});
      serve(stream);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    session = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    session.on('error', () => {});
  });
  after(() => {
    session.destroy();
    server.close();
  });

  const get = (
    answer: (stream: ServerHttp2Stream) => void,
    request: Partial<Http2Request> = {},
  ): Promise<Http2Answer> => {
    serve = answer;
    return http2Get(session, { path: '/x', limit: 200_000, place: 'peer', deadlines, ...request });
  };
  const length = { ':status': 200, 'content-length': String(body.length) };

  test('gives the whole body, with or without its length', async () => {
    for (const headers of [length, { ':status': 200 }]) {
      const answer = await get((stream) => {
        stream.respond(headers);
        stream.write(body.subarray(0, 7));
        stream.end(body.subarray(7));
      });
      assert.equal(answer.status, 200);
      assert.deepEqual(answer.body, body);
    }
    const empty = await get((stream) => stream.respond({ ':status': 200 }, { endStream: true }));
    assert.equal(empty.body.length, 0);
  });

  test('gives status and text of a refusal', async () => {
    const answer = await get(
      (stream) => {
        stream.respond({ ':status': 400 });
        stream.end('a text');
      },
      { enough: 2 },
    );
    assert.deepEqual([answer.status, answer.body.toString()], [400, 'a text']);
  });

  test('takes no more than enough, and resets the rest', async () => {
    let reset = () => {};
    const wasReset = new Promise<void>((resolve) => (reset = resolve));
    const answer = await get(
      (stream) => {
        stream.on('aborted', reset);
        stream.respond(length);
        stream.write(body.subarray(0, 50_000));
      },
      { enough: 64 },
    );
    assert.deepEqual(answer.body, body.subarray(0, 64));
    await wasReset;
  });

  test('refuses what is longer than its limit, announced or not, before it is stored', async () => {
    for (const headers of [length, { ':status': 200 }]) {
      const long = get(
        (stream) => {
          stream.respond(headers);
          stream.end(body);
        },
        { limit: 1000 },
      );
      await assert.rejects(long, expectError('corrupt', /exceeds 1000 bytes/));
    }
    const huge = get((stream) =>
      stream.respond({ ':status': 200, 'content-length': '9'.repeat(18) }),
    );
    await assert.rejects(huge, expectError('corrupt'));
  });

  test('ends by its deadlines: no head, no progress', async () => {
    const silent = get(() => {}, { deadlines: { ...deadlines, chunk: 60 } });
    await assert.rejects(silent, expectError('timeout', /did not answer within 60 ms/));
    const stalled = get(
      (stream) => {
        stream.respond(length);
        stream.write(body.subarray(0, 1000));
      },
      { deadlines: { ...deadlines, progress: 60 } },
    );
    await assert.rejects(stalled, expectError('timeout', /in the middle/));
    const slow = await get(
      async (stream) => {
        stream.respond(length);
        for (let at = 0; at < body.length; at += 10_000) {
          stream.write(body.subarray(at, at + 10_000));
          await sleep(100);
        }
        stream.end();
      },
      { deadlines: { ...deadlines, progress: 700 } },
    );
    assert.deepEqual(slow.body, body);
  });

  test('that is cut short is unreachable, never a short body', async () => {
    const reset = get((stream) => {
      stream.respond({ ':status': 200 });
      stream.write(body.subarray(0, 1000), () => stream.destroy(new Error('injected')));
    });
    await assert.rejects(reset, expectError('unreachable'));
    const early = get((stream) => {
      stream.respond(length);
      stream.end(body.subarray(1));
    });
    await assert.rejects(early, expectError('unreachable'));
  });

  test('is given up at once, and the peer is told', async () => {
    let reset = () => {};
    const wasReset = new Promise<void>((resolve) => (reset = resolve));
    const controller = new AbortController();
    const given = get(
      (stream) => {
        stream.on('aborted', reset);
        stream.respond(length);
        stream.write(body.subarray(0, 30_000), () => setTimeout(() => controller.abort(), 20));
      },
      { signal: controller.signal },
    );
    await assert.rejects(given, expectError('aborted'));
    await wasReset;
    await assert.rejects(
      get(() => {}, { signal: AbortSignal.abort() }),
      expectError('aborted'),
    );
  });

  test('that has nearly arrived still arrives, within a second', async () => {
    for (const isFinished of [true, false]) {
      const controller = new AbortController();
      const late = get(
        async (stream) => {
          stream.respond(length);
          stream.write(body.subarray(0, 60_000));
          await sleep(30);
          controller.abort();
          await sleep(30);
          if (isFinished) stream.end(body.subarray(60_000));
        },
        { signal: controller.signal },
      );
      if (isFinished) assert.deepEqual((await late).body, body);
      else await assert.rejects(late, expectError('aborted'));
    }
  });

  test('on a session that ends, or has ended, is unreachable', async () => {
    const other = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    other.on('error', () => {});
    await once(other, 'connect');
    // Node reports the end of such a stream as if it were complete.
    serve = (stream) => {
      stream.respond({ ':status': 200 });
      stream.write(body.subarray(0, 1000), () => stream.session?.destroy());
    };
    const request = { path: '/x', limit: 200_000, place: 'peer', deadlines };
    await assert.rejects(http2Get(other, request), expectError('unreachable', /broke off/));
    await assert.rejects(http2Get(other, request), expectError('unreachable'));
  });
});
