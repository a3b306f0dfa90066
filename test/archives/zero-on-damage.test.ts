import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { withZeroOnDamage } from '../../src/archives/zero-on-damage.ts';
import { PbsfsError } from '../../src/errors.ts';
import { borrow, type SparseReadAt } from '../../src/read-at.ts';

const chunk = 10;

/** 100 bytes of 1…100 in chunks of 10, some of which cannot be read. */
function source(
  bad: ReadonlySet<number>,
  code: 'corrupt' | 'unreachable' = 'corrupt',
): SparseReadAt {
  const bytes = Buffer.from(Array.from({ length: 100 }, (_, i) => i + 1));
  return {
    size: bytes.length,
    dataSize: bytes.length,
    nextData: (offset) => offset,
    nextHole: () => bytes.length,
    read: async (offset, length) => {
      const end = Math.min(offset + length, bytes.length);
      if (offset >= end) return [];
      for (let i = Math.floor(offset / chunk); i * chunk < end; i++) {
        if (!bad.has(i)) continue;
        throw new PbsfsError(code, 'bad', { context: { offset: i * chunk, length: chunk } });
      }
      return [bytes.subarray(offset, end)];
    },
  };
}

test('ranges that cannot be read are zeros, all others are right, and each is told', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.nat(9)),
      fc.nat(110),
      fc.nat(110),
      async (badList, offset, length) => {
        const bad = new Set(badList);
        let told: number[] = [];
        const reader = withZeroOnDamage(source(bad), (error) =>
          told.push(error.context.offset ?? -1),
        );
        using loan = await borrow(reader, offset, length);
        const borrowed = Buffer.concat(loan.slices);
        told = [];
        const got = Buffer.concat(await reader.read(offset, length));
        assert.ok(borrowed.equals(got));
        const expected: number[] = [];
        for (let at = offset; at < Math.min(offset + length, 100); at++) {
          expected.push(bad.has(Math.floor(at / chunk)) ? 0 : at + 1);
        }
        assert.deepEqual([...got], expected);
        const touched = badList.filter(
          (i) =>
            i * chunk < Math.min(offset + length, 100) && (i + 1) * chunk > offset && length > 0,
        );
        assert.deepEqual(
          told.sort((a, b) => a - b),
          touched.map((i) => i * chunk).sort((a, b) => a - b),
        );
      },
    ),
  );
});

test('a fault that may pass is not damage', async () => {
  const reader = withZeroOnDamage(source(new Set([3]), 'unreachable'), () => assert.fail('told'));
  await assert.rejects(() => reader.read(0, 100), /bad/);
});
