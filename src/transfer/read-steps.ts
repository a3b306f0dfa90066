/** Reads a file forward in steps, some of them on their way while the one before is written. */
import { PbsfsError } from '../errors.ts';
import { borrow, type Loan } from '../read-at.ts';
import type { OpenFile } from '../tree/node.ts';

/** Disposed when its bytes are written. */
export interface Step extends Loan {
  readonly offset: number;
}

/** The average chunk of a pxar archive, and every chunk of an image. */
const stepBytes = 4 * 1024 * 1024;
/** Steps on their way besides the one in use: enough to overlap reading and writing. */
const stepsAhead = 2;

/** Only the data; holes are left out. */
export function readData(file: OpenFile, signal: AbortSignal): AsyncGenerator<Step> {
  return readRanges(dataRanges(file), (start, end) => borrowFully(file, start, end, signal));
}

/** All of it, holes as zeros; `salvage` gives what a step that cannot be read is to be. */
export function readAll(
  file: OpenFile,
  signal: AbortSignal,
  salvage: (start: number, end: number, error: unknown) => Promise<readonly Uint8Array[]>,
): AsyncGenerator<Step> {
  return readRanges([[0, file.size]], async (start, end) => {
    try {
      return kept(await readFully(file, start, end, signal));
    } catch (error) {
      return kept(await salvage(start, end, error));
    }
  });
}

type Range = readonly [start: number, end: number];

function* dataRanges(file: OpenFile): Generator<Range> {
  for (let start = file.nextData(0); start !== undefined; ) {
    const end = file.nextHole(start);
    yield [start, end];
    start = end < file.size ? file.nextData(end) : undefined;
  }
}

function* toSteps(ranges: Iterable<Range>): Generator<Range> {
  for (const [start, end] of ranges) {
    for (let at = start; at < end; at += stepBytes) yield [at, Math.min(at + stepBytes, end)];
  }
}

async function* readRanges(
  ranges: Iterable<Range>,
  read: (start: number, end: number) => Promise<Loan>,
): AsyncGenerator<Step> {
  const waiting: Promise<Step>[] = [];
  for (const [offset, end] of toSteps(ranges)) {
    const step = read(offset, end).then((loan) => ({
      offset,
      slices: loan.slices,
      [Symbol.dispose]: () => loan[Symbol.dispose](),
    }));
    // Awaited in its turn; a failure before that is not unhandled.
    step.catch(() => {});
    waiting.push(step);
    const first = waiting.length > stepsAhead ? waiting.shift() : undefined;
    if (first !== undefined) yield await first;
  }
  for (const step of waiting) yield await step;
}

/** Exactly `[start, end)`. @throws PbsfsError of the file; `corrupt` where it gives less. */
export async function readFully(
  file: OpenFile,
  start: number,
  end: number,
  signal: AbortSignal,
): Promise<readonly Uint8Array[]> {
  return checkLength(await file.read(start, end - start, signal), start, end);
}

async function borrowFully(
  file: OpenFile,
  start: number,
  end: number,
  signal: AbortSignal,
): Promise<Loan> {
  const loan = await borrow(file, start, end - start, signal);
  checkLength(loan.slices, start, end);
  return loan;
}

function checkLength(
  slices: readonly Uint8Array[],
  start: number,
  end: number,
): readonly Uint8Array[] {
  const length = slices.reduce((sum, slice) => sum + slice.length, 0);
  if (length === end - start) return slices;
  throw new PbsfsError('corrupt', `gave ${length} of ${end - start} bytes`, {
    context: { offset: start, length: end - start },
  });
}

/** Bytes that need not be given back. */
function kept(slices: readonly Uint8Array[]): Loan {
  return { slices, [Symbol.dispose]: () => {} };
}
