import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { type ChunkMap, ReadAheadPlanner } from '../../src/chunks/read-ahead-planner.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
const chunkSize = 4 * MiB;
const limit = { chunks: 12, bytes: 1024 * MiB };

type Read = readonly [offset: number, length: number];

/** Chunks of 4 MiB, some of them zeros. */
function image(chunkCount: number, isZero: (i: number) => boolean = () => false): ChunkMap {
  return {
    chunkCount,
    chunkStart: (i) => i * chunkSize,
    chunkEnd: (i) => (i + 1) * chunkSize,
    chunkAt: (offset) => Math.floor(offset / chunkSize),
    nextDataChunk: (i) => {
      let next = i;
      while (next < chunkCount && isZero(next)) next++;
      return next;
    },
  };
}

interface Outcome {
  /** In order. */
  readonly planned: readonly number[];
  /** Planned, and never read afterwards. */
  readonly wasted: readonly number[];
  /** Read, and not planned before. */
  readonly waitedFor: readonly number[];
}

function run(map: ChunkMap, reads: readonly Read[], bounds = limit): Outcome {
  const planner = new ReadAheadPlanner(map);
  const planned: number[] = [];
  const seen = new Set<number>();
  const ahead = new Set<number>();
  const waitedFor: number[] = [];
  for (const [offset, length] of reads) {
    const last = map.chunkAt(offset + length - 1);
    for (let i = map.chunkAt(offset); i <= last; i++) {
      if (!seen.has(i) && !ahead.has(i)) waitedFor.push(i);
      seen.add(i);
    }
    for (const i of planner.plan(offset, length, bounds)) {
      planned.push(i);
      ahead.add(i);
    }
  }
  return { planned, waitedFor, wasted: planned.filter((i) => !seen.has(i)) };
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}

function forward(from: number, to: number, step: number): Read[] {
  const reads: Read[] = [];
  for (let offset = from; offset < to; offset += step) reads.push([offset, step]);
  return reads;
}

/** Deterministic offsets all over the place (MINSTD). */
function* randomNumbers(seed: number): Generator<number> {
  for (let state = seed; ; ) {
    state = (state * 48_271) % 0x7fff_ffff;
    yield state / 0x7fff_ffff;
  }
}

for (const step of [4 * KiB, 128 * KiB, 1 * MiB]) {
  test(`a reader that goes forward by ${step / KiB} KiB waits for its first chunk only`, () => {
    const { planned, waitedFor } = run(image(64), forward(0, 64 * chunkSize, step));
    assert.deepEqual(waitedFor, [0]);
    assert.deepEqual(planned, range(1, 64));
  });
}

test('the window doubles with each chunk up to the limit', () => {
  const planner = new ReadAheadPlanner(image(100));
  const ahead = range(0, 8).map((i) => {
    let furthest = i;
    for (const [offset, length] of forward(i * chunkSize, (i + 1) * chunkSize, MiB)) {
      furthest = Math.max(furthest, ...planner.plan(offset, length, limit));
    }
    return furthest;
  });
  assert.deepEqual(ahead, [1, 3, 6, 11, 16, 17, 18, 19]);
});

test('one read of the kernel’s own read-ahead opens nothing', () => {
  assert.deepEqual(run(image(64), [[20 * chunkSize, 128 * KiB]]).planned, []);
});

test('a reader that takes a little of every chunk is a forward reader', () => {
  const reads = range(0, 64).map((i): Read => [i * chunkSize, 4 * KiB]);
  assert.deepEqual(run(image(64), reads).waitedFor, [0, 1, 2]);
});

test('a stride of two chunks brings nothing', () => {
  const reads = range(0, 64).map((i): Read => [2 * i * chunkSize, 4 * KiB]);
  assert.deepEqual(run(image(128), reads).planned, []);
});

test('a reader that goes backwards brings nothing', () => {
  for (const step of [64 * KiB, 128 * KiB, chunkSize]) {
    assert.deepEqual(run(image(32), forward(0, 32 * chunkSize, step).reverse()).planned, []);
  }
});

test('a reader that jumps about brings next to nothing', () => {
  const numbers = randomNumbers(7);
  const reads = range(0, 2000).map((): Read => {
    const offset = Math.floor((numbers.next().value ?? 0) * 512 * chunkSize);
    return [offset - (offset % (4 * KiB)), 4 * KiB];
  });
  const { planned } = run(image(512), reads);
  assert.ok(planned.length < 20, `${planned.length} chunks for 2000 reads`);
});

test('two readers of one handle each get their window', () => {
  const a = forward(0, 40 * chunkSize, 128 * KiB);
  const b = forward(200 * chunkSize, 240 * chunkSize, 128 * KiB);
  const { waitedFor } = run(
    image(400),
    a.flatMap((read, i) => [read, b[i] ?? read]),
  );
  assert.deepEqual(waitedFor, [0, 200]);
});

test('a copy keeps its window beside a virtual machine that jumps about', () => {
  const numbers = randomNumbers(11);
  const copy = forward(0, 40 * chunkSize, 128 * KiB);
  const reads = copy.flatMap((read): Read[] => {
    const jumps = range(0, 8).map((): Read => {
      const offset = Math.floor((numbers.next().value ?? 0) * 900 * chunkSize) + 100 * chunkSize;
      return [offset - (offset % (4 * KiB)), 16 * KiB];
    });
    return [read, ...jumps];
  });
  const { waitedFor } = run(image(1000), reads);
  assert.deepEqual(
    waitedFor.filter((i) => i < 100),
    [0],
  );
});

test('zeros between two regions do not stop a stream, and are never planned', () => {
  const isZero = (i: number) => i >= 10 && i < 50;
  const { planned, waitedFor } = run(image(60, isZero), [
    ...forward(0, 10 * chunkSize, MiB),
    ...forward(50 * chunkSize, 60 * chunkSize, MiB),
  ]);
  assert.deepEqual(planned, [...range(1, 10), ...range(50, 60)]);
  assert.deepEqual(waitedFor, [0]);
});

test('requests that overtake each other by one do not break a stream', () => {
  const reads = forward(0, 40 * chunkSize, MiB);
  const swapped = reads.flatMap((_, i) =>
    i % 2 === 0 ? [reads[i + 1] ?? [0, MiB], reads[i] ?? [0, MiB]] : [],
  ) as Read[];
  assert.deepEqual(run(image(40), swapped).waitedFor, [0, 1, 2]);
});

test('qemu-img convert waits for the first chunk only and wastes nothing', () => {
  const trace = JSON.parse(
    readFileSync(new URL('../fixtures/traces/qemu-img-convert.json', import.meta.url), 'utf8'),
  ) as { size: number; data: [number, number][]; reads: Read[] };
  const isZero = (i: number) =>
    !trace.data.some(([from, to]) => i * chunkSize < to && (i + 1) * chunkSize > from);
  const outcome = run(image(trace.size / chunkSize, isZero), trace.reads);
  assert.deepEqual(outcome.waitedFor, [2]);
  assert.deepEqual(outcome.wasted, []);
});

test('a boot wastes less than a fifth of what it reads', () => {
  // Clusters of small reads, a few longer files in one go, and back to the same places again.
  const numbers = randomNumbers(3);
  const next = () => numbers.next().value ?? 0;
  const reads: Read[] = [];
  for (let file = 0; file < 400; file++) {
    const start = Math.floor(next() * 500 * 64) * 64 * KiB;
    const length = (next() < 0.1 ? 8 * MiB * next() : 96 * KiB * next()) + 4 * KiB;
    for (const [offset] of forward(start, start + length, 64 * KiB)) reads.push([offset, 64 * KiB]);
  }
  const { planned, wasted, waitedFor } = run(image(512), reads);
  assert.ok(
    wasted.length < 0.2 * (waitedFor.length + planned.length),
    `${wasted.length} of ${planned.length} in vain, ${waitedFor.length} waited for`,
  );
});

test('the window keeps within its bytes', () => {
  const bounds = { chunks: 12, bytes: 3 * chunkSize };
  const planner = new ReadAheadPlanner(image(64));
  for (const [offset, length] of forward(0, 40 * chunkSize, MiB)) {
    const current = Math.floor(offset / chunkSize);
    for (const i of planner.plan(offset, length, bounds)) assert.ok(i <= current + 3);
  }
});

test('a limit of no chunks, or of less bytes than a chunk, plans nothing', () => {
  const reads = forward(0, 20 * chunkSize, MiB);
  assert.deepEqual(run(image(64), reads, { chunks: 0, bytes: 1024 * MiB }).planned, []);
  assert.deepEqual(run(image(64), reads, { chunks: 12, bytes: chunkSize - 1 }).planned, []);
});

test('whatever is read, a plan lies ahead, within the archive, within the limit, and not in zeros', () => {
  const chunkCount = 40;
  const zeros = fc.uniqueArray(fc.integer({ min: 0, max: chunkCount - 1 }));
  const read = fc.tuple(
    fc.integer({ min: 0, max: chunkCount * chunkSize - 1 }),
    fc.integer({ min: 1, max: 9 * MiB }),
  );
  fc.assert(
    fc.property(zeros, fc.array(read, { maxLength: 200 }), (zero, reads) => {
      const planner = new ReadAheadPlanner(image(chunkCount, (i) => zero.includes(i)));
      for (const [offset, length] of reads) {
        const present = Math.min(length, chunkCount * chunkSize - offset);
        const plan = planner.plan(offset, present, limit);
        assert.ok(plan.length <= limit.chunks);
        for (const i of plan) {
          assert.ok(i > Math.floor(offset / chunkSize) && i < chunkCount);
          assert.ok(!zero.includes(i));
        }
      }
    }),
  );
});

/** What a planner says was left, by these reads. */
function leftBy(map: ChunkMap, reads: readonly Read[], bounds = limit): number[] {
  const left: number[] = [];
  const planner = new ReadAheadPlanner(map, (i) => left.push(i));
  for (const [offset, length] of reads) planner.plan(offset, length, bounds);
  return left;
}

test('a forward reader leaves each chunk once, one chunk late, and no zeros', () => {
  assert.deepEqual(leftBy(image(64), forward(0, 6 * chunkSize, MiB)), range(0, 4));
  const isZero = (i: number) => i === 2 || (i > 4 && i < 1_000_000);
  const reads = [
    ...forward(0, 2 * chunkSize, MiB),
    ...forward(3 * chunkSize, 5 * chunkSize, MiB),
    ...forward(1_000_000 * chunkSize, 1_000_003 * chunkSize, MiB),
  ];
  assert.deepEqual(leftBy(image(1_000_100, isZero), reads), [0, 1, 3, 4, 1_000_000]);
});

test('who jumps, goes backwards, or has no window leaves nothing', () => {
  const random = randomNumbers(7);
  const jumps = range(0, 500).map((): Read => {
    return [Math.floor((random.next().value as number) * 100_000) * chunkSize, 4 * KiB];
  });
  assert.deepEqual(leftBy(image(100_000), jumps), []);
  assert.deepEqual(leftBy(image(64), forward(0, 20 * chunkSize, MiB).reverse()), []);
  assert.deepEqual(leftBy(image(64), forward(0, 20 * chunkSize, MiB), { chunks: 0, bytes: 0 }), []);
});
