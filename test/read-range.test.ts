import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { borrow, readAtBuffer, readBytes, type SparseReadAt } from '../src/read-at.ts';
import { Range, SparseRange } from '../src/read-range.ts';

test('a range reads as a slice of its source, wherever it is asked', async () => {
  const bytes = Buffer.from(Array.from({ length: 100 }, (_, i) => i));
  const place = fc.nat({ max: 100 });
  await fc.assert(
    fc.asyncProperty(place, place, place, place, async (a, b, offset, length) => {
      const [start, end] = [Math.min(a, b), Math.max(a, b)];
      const range = new Range(readAtBuffer(bytes), start, end - start);
      assert.equal(range.size, end - start);
      const expected = bytes.subarray(start, end).subarray(offset, offset + length);
      assert.deepEqual(Buffer.from(await readBytes(range, offset, length)), Buffer.from(expected));
      using loan = await borrow(range, offset, length);
      assert.deepEqual(Buffer.concat(loan.slices), Buffer.from(expected));
    }),
  );
});

test('a range has the holes of its source, and ends with one', () => {
  const isData = (offset: number): boolean => offset < 30 && Math.floor(offset / 10) % 2 === 0;
  const next = (offset: number, data: boolean): number => {
    let at = offset;
    while (at < 40 && isData(at) !== data) at++;
    return at;
  };
  const source: SparseReadAt = {
    ...readAtBuffer(Buffer.alloc(40)),
    nextData: (offset) => (next(offset, true) < 40 ? next(offset, true) : undefined),
    nextHole: (offset) => next(offset, false),
    dataSize: 20,
  };
  fc.assert(
    fc.property(fc.nat({ max: 40 }), fc.nat({ max: 40 }), fc.nat({ max: 45 }), (a, b, offset) => {
      const [start, end] = [Math.min(a, b), Math.max(a, b)];
      const range = new SparseRange(source, start, end - start);
      const places = Array.from({ length: end - start }, (_, i) => i);
      const data = places.filter((i) => isData(start + i));
      assert.equal(range.dataSize, data.length);
      assert.equal(
        range.nextData(offset),
        data.find((i) => i >= offset),
      );
      const hole = places.find((i) => i >= offset && !isData(start + i));
      assert.equal(range.nextHole(offset), hole ?? Math.max(offset, end - start));
    }),
  );
});
