import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isPbsfsError, PbsfsError } from '../../src/errors.ts';
import { readWithZeros } from '../../src/transfer/salvage.ts';
import { file } from './support/node-tree.ts';

const signal = new AbortController().signal;

async function salvage(
  content: Buffer,
  damaged: readonly (readonly [number, number])[],
): Promise<{ bytes: Buffer; told: [number, number][]; reads: number }> {
  let reads = 0;
  const told: [number, number][] = [];
  await using open = await file(content, { damaged, onRead: () => void reads++ }).open();
  const parts: Uint8Array[] = [];
  for await (const part of readWithZeros(open, signal, (start, end) => told.push([start, end]))) {
    parts.push(part);
  }
  return { bytes: Buffer.concat(parts), told, reads };
}

test('exactly the damaged bytes are zeros, and are told', async () => {
  const content = Buffer.alloc(9_000_000, 7);
  const damaged = [
    [1_000_001, 1_400_000],
    [1_500_000, 1_700_003],
    [8_999_990, 9_000_000],
  ] as const;
  const { bytes, told, reads } = await salvage(content, damaged);
  const expected = Buffer.from(content);
  for (const [start, end] of damaged) expected.fill(0, start, end);
  assert.ok(bytes.equals(expected));
  // Steps are read side by side.
  assert.deepEqual(
    told.toSorted(([a], [b]) => a - b),
    damaged,
  );
  assert.ok(reads < 300, `${reads} reads`);
});

test('whatever is damaged, the size stays and no byte is wrong', async () => {
  const range = fc
    .tuple(fc.nat(200_000), fc.nat(100_000))
    .map(([start, length]) => [start, start + length + 1] as const);
  await fc.assert(
    fc.asyncProperty(fc.array(range, { maxLength: 3 }), async (damaged) => {
      const content = Buffer.alloc(200_000, 9);
      const { bytes } = await salvage(content, damaged);
      assert.equal(bytes.length, content.length);
      const isDamaged = (at: number): boolean =>
        damaged.some(([start, end]) => at >= start && at < end);
      // A run of less than a probe between two damaged ones may be lost, nothing else.
      for (let at = 0; at < bytes.length; at += 997) {
        if (isDamaged(at)) assert.equal(bytes[at], 0);
        else if (damaged.length < 2) assert.equal(bytes[at], 9);
      }
    }),
    { numRuns: 50 },
  );
});

test('what is no damage is thrown', async () => {
  const gone = file('x', {
    onRead: () => {
      throw new PbsfsError('timeout', 'no answer');
    },
  });
  await using open = await gone.open();
  await assert.rejects(readWithZeros(open, signal, () => {}).next(), (error) =>
    isPbsfsError(error, 'timeout'),
  );
});
