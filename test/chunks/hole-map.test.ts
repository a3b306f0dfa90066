import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { HoleMap } from '../../src/chunks/hole-map.ts';
import { decodeIndex } from '../../src/formats/chunk-index.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { encodeTestFixedIndex, otherKey, sha256, vectorKey } from '../support/encode-formats.ts';
import { type MemoryArchive, memoryArchive } from '../support/memory-archive.ts';

const k = 1024;

/** Pieces of data (`d`) and zeros (`z`) of one length each, then a last one. */
function pattern(pieces: string, length: number, last = ''): Buffer {
  const bytes = [...pieces].map((piece) =>
    piece === 'z' ? Buffer.alloc(length) : randomBytes(length),
  );
  return Buffer.concat([...bytes, Buffer.from(last)]);
}

function mapOf(archive: MemoryArchive, crypt?: CryptConfig, isEncrypted = crypt !== undefined) {
  return new HoleMap({ index: archive.index, isEncrypted, crypt });
}

test('holes of an image are its chunks of zeros, joined', () => {
  const map = mapOf(memoryArchive(pattern('dzzdz', 4 * k, 'end'), { cut: 4 * k }));
  assert.equal(map.dataSize, 8 * k + 3);
  const holes: [number, number][] = [
    [4 * k, 12 * k],
    [16 * k, 20 * k],
  ];
  const isHole = (offset: number) => holes.some(([start, end]) => offset >= start && offset < end);
  const size = 20 * k + 3;
  for (let offset = 0; offset <= size; offset += 511) {
    let data = offset;
    while (data < size && isHole(data)) data++;
    let hole = offset;
    while (hole < size && !isHole(hole)) hole++;
    assert.equal(map.nextData(offset), data < size ? data : undefined, `data at ${offset}`);
    assert.equal(map.nextHole(offset), hole, `hole at ${offset}`);
  }
});

test('an image of zeros is one hole, also where its last chunk is short or padded', () => {
  const data = Buffer.alloc(9 * k);
  for (const padLast of [false, true]) {
    const map = mapOf(memoryArchive(data, { cut: 4 * k, padLast }));
    assert.equal(map.dataSize, 0);
    assert.equal(map.nextData(0), undefined);
    assert.equal(map.nextHole(5), 5);
    assert.equal(map.isZero(2), true);
  }
});

test('an image without zeros has its only hole at the end', () => {
  const map = mapOf(memoryArchive(pattern('dd', 4 * k), { cut: 4 * k }));
  assert.equal(map.dataSize, 8 * k);
  assert.equal(map.nextHole(0), 8 * k);
  assert.equal(map.nextData(8 * k - 1), 8 * k - 1);
  assert.equal(map.nextData(8 * k), undefined);
  assert.equal(map.nextHole(8 * k), 8 * k);
});

test('an empty image has neither data nor holes', () => {
  const map = mapOf(memoryArchive(Buffer.alloc(0), { cut: 4 * k }));
  assert.equal(map.dataSize, 0);
  assert.equal(map.nextData(0), undefined);
  assert.equal(map.nextHole(0), 0);
});

test('a dynamic index has holes where zeros were cut at the maximum of its chunker', () => {
  const data = Buffer.concat([randomBytes(3000), Buffer.alloc(2 * 16 * k), randomBytes(777)]);
  const map = mapOf(memoryArchive(data, { cut: [3000, 16 * k, 16 * k, 777] }));
  assert.equal(map.dataSize, 3777);
  assert.equal(map.nextHole(0), 3000);
  assert.equal(map.nextData(3000), 3000 + 32 * k);
});

test('encrypted zeros are known with their key only', () => {
  const crypt = new CryptConfig(vectorKey);
  const archive = memoryArchive(pattern('dzd', 4 * k), { cut: 4 * k, crypt });
  assert.equal(mapOf(archive, crypt).dataSize, 8 * k);
  assert.equal(mapOf(archive, new CryptConfig(otherKey)).dataSize, 12 * k);
  const locked = mapOf(archive, undefined, true);
  assert.equal(locked.dataSize, 12 * k);
  assert.equal(locked.isZero(1), false);
  assert.equal(locked.nextHole(0), 12 * k);
});

test('a digest of 32 zero bytes is no hole', () => {
  const file = encodeTestFixedIndex(8 * k, 4 * k, [Buffer.alloc(32), sha256(Buffer.from('x'))]);
  const map = new HoleMap({ index: decodeIndex('x.fidx', file.bytes), isEncrypted: false });
  assert.equal(map.dataSize, 8 * k);
});

test('an index of a million chunks is mapped in well under a second', () => {
  const count = 1_000_000;
  const zero = sha256(Buffer.alloc(4 * k));
  const data = sha256(Buffer.from('data'));
  const digests = Array.from({ length: count }, (_, i) => (i % 3 === 0 ? zero : data));
  const { bytes } = encodeTestFixedIndex(count * 4 * k, 4 * k, digests);
  const map = new HoleMap({ index: decodeIndex('x.fidx', bytes), isEncrypted: false });
  const start = performance.now();
  assert.equal(map.dataSize, Math.floor((count * 2) / 3) * 4 * k);
  const taken = performance.now() - start;
  assert.ok(taken < 2000, `${taken} ms`);
  const again = performance.now();
  assert.equal(map.nextData(0), 4 * k);
  assert.ok(performance.now() - again < 50, 'the map is kept');
});
