/** Medians over the samples of a case. */
import type { Medians, Sample } from './bench-case.ts';

function median(values: readonly number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)];
  const lower = sorted[Math.ceil(middle) - 1];
  return upper === undefined || lower === undefined ? undefined : (lower + upper) / 2;
}

export type Samples = ReadonlyMap<string, readonly Sample[]>;

export function mediansOf(samples: Samples): Medians {
  const pick = (name: string, field: (sample: Sample) => number | undefined) =>
    median((samples.get(name) ?? []).map(field).filter((value) => value !== undefined));
  return {
    seconds: (name) => pick(name, ({ seconds }) => seconds),
    cpuSeconds: (name) => pick(name, ({ cpuSeconds }) => cpuSeconds),
    peakBytes: (name) => pick(name, ({ peakBytes }) => peakBytes),
    count: (name, what) => pick(name, ({ counts }) => counts?.[what]),
  };
}
