/** Data blobs: the published vectors, the independent encoder, and everything that can be wrong with one. */
import assert from 'node:assert/strict';
import { createDecipheriv } from 'node:crypto';
import { test } from 'node:test';
import { crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { formatError } from '../../src/errors.ts';
import { CryptConfig, plainDigest } from '../../src/formats/crypt-config.ts';
import {
  type BlobKind,
  blobKind,
  decodeBlob,
  decodeBlobSync,
  encodeBlob,
  isEncryptedKind,
  maxBlobSize,
  verifyBlobCrc,
} from '../../src/formats/data-blob.ts';
import { encodeTestBlob, otherKey, vectorKey } from '../support/encode-formats.ts';
import { expectError } from '../support/expect-error.ts';

const crypt = new CryptConfig(vectorKey);
const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const maxLength = maxBlobSize;

const plainHello = hex('42ab3807be8370a1 86a61036 68656c6c6f');
const zstdHello = hex('31b958426fb6a37f 782cd3f9 28b52ffd203c6500003068656c6c6f200100cb598a');
const encryptedHello = hex(
  '7b6785be222d4cf0 499d991b 101112131415161718191a1b1c1d1e1f bbe022b70269e0f0d9e91942ac3d0c83 e23f560c88',
);
const vectorIv = encryptedHello.subarray(12, 28);
const text = Buffer.from('all work and no play makes a dull backup\n'.repeat(500));
const kinds: readonly BlobKind[] = ['plain', 'zstd', 'encrypted', 'encrypted-zstd'];

test('the published vectors decode, CRC included', async () => {
  assert.equal(String(await decodeBlob(plainHello, { maxLength, crc: true })), 'hello');
  assert.equal(String(await decodeBlob(zstdHello, { maxLength, crc: true })), 'hello '.repeat(10));
  assert.equal(String(await decodeBlob(encryptedHello, { maxLength, crypt, crc: true })), 'hello');
});

test('the published vectors are what is encoded', () => {
  assert.deepEqual(encodeBlob(Buffer.from('hello')), plainHello);
  assert.deepEqual(encodeBlob(Buffer.from('hello'), { crypt, iv: vectorIv }), encryptedHello);
  const packed = encodeBlob(Buffer.from('hello '.repeat(10)), { compress: true });
  assert.equal(blobKind(packed), 'zstd');
  assert.equal(String(zstdDecompressSync(packed.subarray(12))), 'hello '.repeat(10));
});

test('a nonce cut to the usual 12 bytes is another cipher text and is refused', async () => {
  const truncated = Buffer.from(encryptedHello);
  hex('159bf47a26').copy(truncated, 44);
  await assert.rejects(decodeBlob(truncated, { maxLength, crypt }), expectError('corrupt', /tag/));
  const short = createDecipheriv('aes-256-gcm', vectorKey, vectorIv.subarray(0, 12));
  assert.equal(String(short.update(hex('159bf47a26'))), 'hello');
});

test('digests follow the published vectors', async () => {
  const hello = Buffer.from('hello');
  const plain = '2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824';
  const keyed = 'e34178a27b992c4a218599bf7f43ed50bc464a03d624d9092306fe2ed74d557e';
  assert.equal((await plainDigest(hello)).toString('hex'), plain);
  assert.equal((await crypt.digest(hello)).toString('hex'), keyed);
  assert.equal(crypt.digestSync(hello).toString('hex'), keyed);
});

test('digests of 4 MiB of zeros follow the published vectors', async () => {
  const zeros = Buffer.alloc(4 * 1024 * 1024);
  const plain = 'bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8';
  const keyed = '348571e12bbbedb529def1f1394316e338a01945d871df9ef792617ceb13d636';
  assert.equal((await plainDigest(zeros)).toString('hex'), plain);
  assert.equal((await crypt.digest(zeros)).toString('hex'), keyed);
});

for (const kind of kinds) {
  test(`a blob of kind ${kind} from the independent encoder decodes`, async () => {
    for (const data of [Buffer.alloc(0), Buffer.from('x'), text]) {
      const raw = encodeTestBlob(data, kind);
      assert.equal(blobKind(raw), kind);
      assert.deepEqual(await decodeBlob(raw, { maxLength, crypt, crc: true }), data);
      assert.deepEqual(await decodeBlob(raw, { maxLength: data.length, crypt }), data);
    }
  });

  test(`a changed payload byte of kind ${kind} fails the CRC`, async () => {
    const raw = encodeTestBlob(text, kind);
    raw.writeUInt8(raw.readUInt8(raw.length - 1) ^ 0x40, raw.length - 1);
    assert.throws(() => verifyBlobCrc(raw), expectError('corrupt', /CRC/));
    await assert.rejects(
      decodeBlob(raw, { maxLength, crypt, crc: true }),
      expectError('corrupt', /CRC/),
    );
  });

  test(`a blob of kind ${kind} longer than expected is refused`, async () => {
    const raw = encodeTestBlob(text, kind);
    for (const limit of [0, 1, text.length - 1]) {
      await assert.rejects(
        decodeBlob(raw, { maxLength: limit, crypt }),
        expectError('corrupt', new RegExp(`${limit}`)),
      );
    }
  });
}

test('what is encoded is read by other means, in all four kinds', () => {
  for (const [options, kind] of [
    [{}, 'plain'],
    [{ compress: true }, 'zstd'],
    [{ crypt }, 'encrypted'],
    [{ compress: true, crypt }, 'encrypted-zstd'],
  ] as const) {
    const raw = encodeBlob(text, options);
    assert.equal(blobKind(raw), kind);
    const header = isEncryptedKind(kind) ? 44 : 12;
    assert.equal(raw.readUInt32LE(8), crc32(raw.subarray(header)));
    let payload = raw.subarray(header);
    if (isEncryptedKind(kind)) {
      const decipher = createDecipheriv('aes-256-gcm', vectorKey, raw.subarray(12, 28));
      decipher.setAuthTag(raw.subarray(28, 44));
      payload = Buffer.concat([decipher.update(payload), decipher.final()]);
    }
    assert.deepEqual(kind.endsWith('zstd') ? zstdDecompressSync(payload) : payload, text);
  }
});

test('every encryption has an IV of its own', () => {
  const [a, b] = [encodeBlob(text, { crypt }), encodeBlob(text, { crypt })];
  assert.notDeepEqual(a.subarray(12, 28), b.subarray(12, 28));
});

test('compression is kept only where it is smaller', () => {
  assert.equal(blobKind(encodeBlob(Buffer.alloc(0), { compress: true })), 'plain');
  assert.equal(blobKind(encodeBlob(Buffer.from('x'), { compress: true })), 'plain');
  assert.equal(blobKind(encodeBlob(Buffer.from('x'), { compress: true, crypt })), 'encrypted');
  assert.deepEqual(encodeBlob(Buffer.alloc(0)), hex('42ab3807be8370a1 00000000'));
});

test('more than 128 MiB are not encoded', () => {
  const tooLong = Buffer.allocUnsafeSlow(maxBlobSize + 1);
  assert.throws(() => encodeBlob(tooLong), expectError('usage', /134217728/));
});

test('a plain blob gives a view, with no copy', async () => {
  const raw = encodeTestBlob(text, 'plain');
  const decoded = await decodeBlob(raw, { maxLength });
  assert.equal(decoded.buffer, raw.buffer);
  assert.equal(decoded.byteOffset, raw.byteOffset + 12);
});

test('a chunk is unpacked into one buffer, with a byte to spare', async () => {
  // Long enough to be no slice of Node's pool of small buffers.
  const raw = encodeTestBlob(Buffer.alloc(1_000_003, 'abc'), 'zstd');
  const decoded = await decodeBlob(raw, { maxLength: 1_000_003 });
  assert.equal(decoded.length, 1_000_003);
  // Without the spare byte zlib takes a second buffer when the first one is full.
  assert.equal(decoded.buffer.byteLength, 1_000_004);
});

test('short, unknown and cut blobs are corrupt and say so', async () => {
  assert.throws(() => blobKind(Buffer.alloc(0)), expectError('corrupt', /0 bytes/));
  assert.throws(() => blobKind(plainHello.subarray(0, 11)), expectError('corrupt', /11 bytes/));
  assert.throws(() => blobKind(encryptedHello.subarray(0, 43)), expectError('corrupt', /43 bytes/));
  assert.throws(() => blobKind(Buffer.alloc(12)), expectError('corrupt', /magic 0000000000000000/));
  assert.throws(() => verifyBlobCrc(Buffer.alloc(3)), expectError('corrupt'));
  await assert.rejects(decodeBlob(Buffer.alloc(100), { maxLength }), expectError('corrupt'));
});

test('an encrypted blob without a key says that the key is missing', async () => {
  for (const kind of ['encrypted', 'encrypted-zstd'] as const) {
    await assert.rejects(
      decodeBlob(encodeTestBlob(text, kind), { maxLength }),
      expectError('key-missing'),
    );
  }
});

test('another key, and a changed IV, tag or payload, fail the authentication', async () => {
  for (const kind of ['encrypted', 'encrypted-zstd'] as const) {
    const foreign = encodeTestBlob(text, kind, otherKey);
    await assert.rejects(decodeBlob(foreign, { maxLength, crypt }), expectError('corrupt', /tag/));
    for (const offset of [12, 27, 28, 43, 44]) {
      const raw = encodeTestBlob(text, kind);
      raw.writeUInt8(raw.readUInt8(offset) ^ 1, offset);
      await assert.rejects(decodeBlob(raw, { maxLength, crypt }), expectError('corrupt', /tag/));
    }
  }
});

/** A zstd blob with any payload. */
function zstdBlob(...payload: readonly Uint8Array[]): Buffer {
  return Buffer.concat([zstdHello.subarray(0, 12), ...payload]);
}

test('nothing but one whole zstd frame is taken', async () => {
  const frame = zstdCompressSync(text);
  const skippable = hex('502a4d18 04000000 01020304');
  const cases: readonly (readonly [string, Buffer, RegExp])[] = [
    ['a second frame', zstdBlob(frame, frame), new RegExp(`${frame.length} bytes follow`)],
    ['garbage behind', zstdBlob(frame, Buffer.from('x')), /1 bytes follow/],
    ['a skippable frame before', zstdBlob(skippable, frame), /bytes follow/],
    ['a cut frame', zstdBlob(frame.subarray(0, -1)), /cut short/],
    ['no frame', zstdBlob(), /cut short/],
    ['no zstd', zstdBlob(Buffer.from('no zstd at all')), /damaged/],
  ];
  for (const [name, raw, message] of cases) {
    await assert.rejects(decodeBlob(raw, { maxLength }), expectError('corrupt', message), name);
    // Where the output is exactly full, zlib itself runs into what follows.
    await assert.rejects(decodeBlob(raw, { maxLength: text.length }), expectError('corrupt'), name);
  }
});

test('a frame that promises exabytes, or wants a window of gigabytes, gets neither', async () => {
  const promise = hex('28b52ffd e0 ffffffffffffff3f 010000');
  const wide = hex('28b52ffd 00 a8 010000');
  const before = process.memoryUsage().rss;
  for (const frame of [promise, wide]) {
    for (const limit of [4096, maxBlobSize]) {
      await assert.rejects(
        decodeBlob(zstdBlob(frame), { maxLength: limit }),
        expectError('corrupt'),
      );
    }
  }
  assert.ok(process.memoryUsage().rss - before < 64 * 1024 * 1024);
});

test('one byte is too much where none is expected', async () => {
  for (const kind of kinds) {
    const raw = encodeTestBlob(Buffer.from('x'), kind);
    await assert.rejects(
      decodeBlob(raw, { maxLength: 0, crypt }),
      expectError('corrupt', /1 bytes/),
    );
  }
});

test('a zip bomb is stopped at the expected length', async () => {
  const bomb = zstdBlob(zstdCompressSync(Buffer.alloc(64 * 1024 * 1024)));
  assert.ok(bomb.length < 10_000);
  await assert.rejects(
    decodeBlob(bomb, { maxLength: 1024 * 1024 }),
    expectError('corrupt', /more than the expected 1048576 bytes/),
  );
});

test('decoding at once gives what decoding on the thread pool gives, or the same error', async () => {
  const text = Buffer.from('some text that is worth packing '.repeat(40));
  const outcome = async (decode: () => Buffer | Promise<Buffer>) => {
    try {
      return await decode();
    } catch (error) {
      return formatError(error);
    }
  };
  for (const kind of ['plain', 'zstd', 'encrypted', 'encrypted-zstd'] as const) {
    const raw = encodeTestBlob(text, kind);
    for (let i = -1; i < raw.length; i += 7) {
      const bytes = Buffer.from(raw);
      if (i >= 0) bytes[i] = (bytes[i] ?? 0) ^ 0x10;
      for (const options of [{ maxLength, crypt }, { maxLength: text.length - 1 }]) {
        assert.deepEqual(
          await outcome(() => decodeBlobSync(bytes, options)),
          await outcome(() => decodeBlob(bytes, options)),
        );
      }
    }
  }
});
