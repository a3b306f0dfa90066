import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { type ChunkDecoder, DecoderThreads, decodeHere } from '../../src/chunks/decoder-threads.ts';
import { isPbsfsError } from '../../src/errors.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import {
  chunkDigest,
  encodeTestBlob,
  otherKey,
  sha256,
  type TestBlobKind,
  vectorKey,
} from '../support/encode-formats.ts';
import { expectError } from '../support/expect-error.ts';

const length = 200_000;
const crypt = new CryptConfig(vectorKey);
const plain = Buffer.concat([Buffer.alloc(150_000, 'a line of text\n'), randomBytes(50_000)]);

function decode(decoder: ChunkDecoder, kind: TestBlobKind, raw: Buffer): Promise<Buffer> {
  const isEncrypted = kind.startsWith('encrypted');
  const expected = {
    digest: chunkDigest(plain, isEncrypted ? vectorKey : undefined),
    length,
    paddedLength: length,
    cryptMode: isEncrypted ? 'encrypt' : 'none',
  } as const;
  return decoder.decode(Buffer.from(raw), expected, isEncrypted ? crypt : undefined);
}

const kinds = ['plain', 'zstd', 'encrypted', 'encrypted-zstd'] as const;

test('all kinds of chunks come back decoded from threads', async () => {
  using threads = new DecoderThreads(2);
  for (const kind of kinds) {
    assert.ok((await decode(threads, kind, encodeTestBlob(plain, kind))).equals(plain), kind);
  }
});

test('threads refuse what the calling thread refuses, with the same words', async () => {
  using threads = new DecoderThreads(1);
  const outcome = async (decoder: ChunkDecoder, kind: TestBlobKind, raw: Buffer) => {
    try {
      return await decode(decoder, kind, raw);
    } catch (error) {
      assert.ok(isPbsfsError(error));
      return `${error.code}: ${error.message}`;
    }
  };
  for (const kind of kinds) {
    const raw = encodeTestBlob(plain, kind);
    const flipped = Buffer.from(raw);
    flipped[raw.length - 9] = (raw[raw.length - 9] ?? 0) ^ 1;
    const damaged = [
      raw.subarray(0, 5),
      raw.subarray(0, -1),
      flipped,
      encodeTestBlob(plain.subarray(1), kind),
    ];
    for (const bytes of damaged) {
      const here = await outcome(decodeHere, kind, bytes);
      assert.equal(await outcome(threads, kind, bytes), here);
      assert.match(String(here), /^corrupt: /);
    }
  }
});

test('the key is that of each chunk, not of the one before', async () => {
  using threads = new DecoderThreads(1);
  const raw = encodeTestBlob(plain, 'encrypted');
  const expected = {
    digest: chunkDigest(plain, vectorKey),
    length,
    paddedLength: length,
    cryptMode: 'encrypt',
  } as const;
  const wrong = new CryptConfig(otherKey);
  await assert.rejects(
    threads.decode(Buffer.from(raw), expected, wrong),
    expectError('corrupt', /tag/),
  );
  assert.ok((await threads.decode(Buffer.from(raw), expected, crypt)).equals(plain));
});

test('many chunks at once each come back as themselves', async () => {
  using threads = new DecoderThreads(3);
  const chunks = Array.from({ length: 40 }, (_, i) => randomBytes(64 * 1024 + i));
  const decoded = await Promise.all(
    chunks.map((chunk) =>
      threads.decode(encodeTestBlob(chunk, 'zstd'), {
        digest: sha256(chunk),
        length: chunk.length,
        paddedLength: chunk.length,
        cryptMode: 'none',
      }),
    ),
  );
  for (const [i, chunk] of chunks.entries()) assert.ok(decoded[i]?.equals(chunk));
});

test('memory that holds other things as well stays usable', async () => {
  using threads = new DecoderThreads(1);
  const raw = encodeTestBlob(plain, 'plain');
  const shared = Buffer.concat([Buffer.from('before'), raw, Buffer.from('behind')]);
  const expected = {
    digest: sha256(plain),
    length,
    paddedLength: length,
    cryptMode: 'none',
  } as const;
  const part = shared.subarray(6, 6 + raw.length);
  assert.ok((await threads.decode(part, expected)).equals(plain));
  assert.equal(shared.toString('latin1', 0, 6), 'before');
  assert.ok(part.equals(raw));
});

test('what is in work when the threads are ended fails', async () => {
  const threads = new DecoderThreads(1);
  const result = decode(threads, 'zstd', encodeTestBlob(plain, 'zstd'));
  threads[Symbol.dispose]();
  await assert.rejects(result, expectError('bug', /decoder thread failed/));
});
