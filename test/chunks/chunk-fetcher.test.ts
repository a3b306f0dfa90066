import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { ChunkFetcher } from '../../src/chunks/chunk-fetcher.ts';
import { type ErrorCode, formatError, isPbsfsError, PbsfsError } from '../../src/errors.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import type { CryptMode } from '../../src/formats/manifest.ts';
import { Semaphore } from '../../src/semaphore.ts';
import {
  chunkDigest,
  encodeTestBlob,
  otherKey,
  sha256,
  vectorKey,
} from '../support/encode-formats.ts';

const data = Buffer.concat([Buffer.alloc(3000, 'a line of text\n'), randomBytes(500)]);
const crypt = new CryptConfig(vectorKey);

function fetcherOf(
  raw: Buffer | (() => Promise<Buffer>),
  cryptMode: CryptMode = 'none',
  key: CryptConfig | undefined = undefined,
): ChunkFetcher {
  const readChunk = typeof raw === 'function' ? raw : async () => raw;
  return new ChunkFetcher({
    reader: { readChunk },
    cryptMode,
    crypt: key,
    limiter: new Semaphore(4),
  });
}

function isCode(code: ErrorCode, message: RegExp, digest: Buffer): (error: unknown) => boolean {
  return (error) => {
    assert.ok(isPbsfsError(error, code), formatError(error));
    assert.match(error.message, message);
    assert.equal(error.context.digest, digest.toString('hex'));
    return true;
  };
}

test('all four kinds of stored chunks come out as what went in', async () => {
  for (const kind of ['plain', 'zstd', 'encrypted', 'encrypted-zstd'] as const) {
    const isEncrypted = kind.startsWith('encrypted');
    const key = isEncrypted ? vectorKey : undefined;
    const fetcher = fetcherOf(encodeTestBlob(data, kind), isEncrypted ? 'encrypt' : 'none', crypt);
    assert.deepEqual(await fetcher.fetch(chunkDigest(data, key), data.length), data);
  }
  const signed = fetcherOf(encodeTestBlob(data, 'zstd'), 'sign-only', crypt);
  assert.deepEqual(await signed.fetch(sha256(data), data.length), data, 'plain digest with a key');
});

test('how a chunk is stored has to fit the crypt mode of its archive', async () => {
  const digest = chunkDigest(data, vectorKey);
  for (const kind of ['plain', 'zstd'] as const) {
    const fetcher = fetcherOf(encodeTestBlob(data, kind), 'encrypt', crypt);
    const expected = isCode('corrupt', new RegExp(`stored ${kind}, .*'encrypt'`), sha256(data));
    await assert.rejects(fetcher.fetch(sha256(data), data.length), expected);
  }
  for (const mode of ['none', 'sign-only'] as const) {
    const fetcher = fetcherOf(encodeTestBlob(data, 'encrypted'), mode, crypt);
    const expected = isCode('corrupt', new RegExp(`stored encrypted, .*'${mode}'`), digest);
    await assert.rejects(fetcher.fetch(digest, data.length), expected);
  }
});

test('without the key nothing is read; with another one the chunk is refused', async () => {
  const digest = chunkDigest(data, vectorKey);
  const unread = fetcherOf(async () => assert.fail('read'), 'encrypt');
  await assert.rejects(unread.fetch(digest, 10), isCode('key-missing', /no key/, digest));
  const raw = encodeTestBlob(data, 'encrypted');
  const wrong = fetcherOf(raw, 'encrypt', new CryptConfig(otherKey));
  await assert.rejects(wrong.fetch(digest, data.length), isCode('corrupt', /tag/, digest));
});

test('what is wrong with a chunk is told with the figures', async () => {
  const digest = sha256(data);
  const good = encodeTestBlob(data, 'zstd');
  const flipped = Buffer.from(good);
  flipped.writeUInt8(flipped.readUInt8(200) ^ 4, 200);
  const flippedPlain = encodeTestBlob(data, 'plain');
  flippedPlain.writeUInt8(flippedPlain.readUInt8(200) ^ 4, 200);
  const badMagic = Buffer.concat([Buffer.alloc(8, 0xff), good.subarray(8)]);
  const cases: [string, Buffer, RegExp][] = [
    ['empty', Buffer.alloc(0), /0 bytes.*12/],
    ['11 bytes', good.subarray(0, 11), /11 bytes.*12/],
    ['magic', badMagic, /magic ffffffffffffffff/],
    ['cut short', good.subarray(0, -20), /damaged: .*CRC.*cut short/],
    ['bit flip in zstd', flipped, /damaged: .*CRC/],
    ['bit flip in plain', flippedPlain, /damaged: .*CRC.*other data/],
    [
      'other data',
      encodeTestBlob(Buffer.alloc(data.length), 'zstd'),
      /^chunk holds other data, of digest [0-9a-f]{64}$/,
    ],
    ['longer', encodeTestBlob(Buffer.concat([data, data]), 'zstd'), /more than the expected 3500/],
    ['longer, plain', encodeTestBlob(Buffer.concat([data, data]), 'plain'), /7000.*3500/],
  ];
  for (const [name, raw, message] of cases) {
    await assert.rejects(
      fetcherOf(raw).fetch(digest, data.length),
      isCode('corrupt', message, digest),
      name,
    );
  }
  const short = fetcherOf(good).fetch(digest, data.length + 1);
  await assert.rejects(short, isCode('corrupt', /3500 bytes, its index says 3501/, digest));
});

test('a wrong CRC alone is no harm where the digest fits', async () => {
  const raw = encodeTestBlob(data, 'zstd');
  raw.writeUInt32LE(0, 8);
  assert.deepEqual(await fetcherOf(raw).fetch(sha256(data), data.length), data);
});

test('padding is verified, cut off and not kept, and only where it is allowed', async () => {
  const wanted = randomBytes(100_000);
  const padded = Buffer.concat([wanted, Buffer.alloc(31_072)]);
  const digest = sha256(padded);
  for (const kind of ['plain', 'zstd'] as const) {
    const fetcher = fetcherOf(encodeTestBlob(padded, kind));
    const fetch = (paddedLength?: number, of = digest) =>
      fetcher.fetch(of, wanted.length, undefined, paddedLength);
    const bytes = await fetch(131_072);
    assert.deepEqual(bytes, wanted);
    assert.equal(bytes.buffer.byteLength, wanted.length);
    await assert.rejects(fetch(), isCode('corrupt', /100000/, digest));
    await assert.rejects(fetch(131_071), isCode('corrupt', /131071/, digest));
    // The digest covers the padding: it cannot be exchanged.
    const other = sha256(wanted);
    await assert.rejects(fetch(131_072, other), isCode('corrupt', /other data/, other));
  }
});

test('errors of the repository come through with the digest, strange ones as bugs', async () => {
  const digest = sha256(data);
  for (const code of ['chunk-missing', 'stale', 'unreachable', 'timeout'] as const) {
    const fetcher = fetcherOf(async () => {
      throw new PbsfsError(code, 'from below', { context: { repository: 'r' } });
    });
    await assert.rejects(fetcher.fetch(digest, 1), isCode(code, /from below/, digest));
  }
  const broken = fetcherOf(async () => {
    throw new TypeError('not ours');
  });
  await assert.rejects(broken.fetch(digest, 1), isCode('bug', /not ours/, digest));
});

test('the limiter bounds what is read and decoded at once, and the signal reaches the reader', async () => {
  const raw = encodeTestBlob(data, 'zstd');
  let running = 0;
  let most = 0;
  const signals: (AbortSignal | undefined)[] = [];
  const readChunk = async (_digest: Uint8Array, signal?: AbortSignal) => {
    most = Math.max(most, ++running);
    signals.push(signal);
    await new Promise((resolve) => setImmediate(resolve));
    running--;
    return raw;
  };
  const fetcher = new ChunkFetcher({
    reader: { readChunk },
    cryptMode: 'none',
    limiter: new Semaphore(3),
  });
  const { signal } = new AbortController();
  await Promise.all(
    Array.from({ length: 20 }, () => fetcher.fetch(sha256(data), data.length, signal)),
  );
  assert.equal(most, 3);
  assert.deepEqual(new Set(signals), new Set([signal]));
});
