/**
 * What a benchmark is: contestants that do the same work, run in turn so that a change of the machine's mood
 * meets them all, and ratios of their medians that are wanted.
 */
import type { Dataset, ImagePlan } from './dataset.ts';

/** One run of one contestant. */
export interface Sample {
  readonly seconds: number;
  /** Processor time of the program measured, without its callers such as dd. */
  readonly cpuSeconds?: number;
  /** Most memory that the program had resident (VmHWM). */
  readonly peakBytes?: number;
  /** What was counted meanwhile, such as `requests`. */
  readonly counts?: Counts;
}

export type Counts = Readonly<Record<string, number>>;

export interface Contestant {
  readonly name: string;
  run(): Promise<Sample>;
  /** Only counts, which no second run changes: its time means nothing and is not shown. */
  readonly countsOnly?: boolean;
}

/** Medians by contestant; undefined where one did not run, such as a peer that is not installed. */
export interface Medians {
  seconds(name: string): number | undefined;
  cpuSeconds(name: string): number | undefined;
  peakBytes(name: string): number | undefined;
  count(name: string, what: string): number | undefined;
}

export interface Wanted {
  /** Such as `of the decode limit`. */
  readonly what: string;
  readonly bound: 'at least' | 'at most';
  readonly limit: number;
  /** Shown behind the figures. */
  readonly unit?: string;
  readonly value: (medians: Medians) => number | undefined;
}

/** How the time of a run is shown: as an amount per second, or as the time itself for `amount` 1. */
export interface Work {
  readonly amount: number;
  readonly unit: 'MB/s' | 'reads/s' | 'entries/s' | 'files/s' | 'ms';
}

export interface PreparedCase extends AsyncDisposable {
  readonly work: Work;
  readonly contestants: readonly Contestant[];
  readonly wanted: readonly Wanted[];
}

export interface BenchCase {
  /** For `--only`. */
  readonly name: string;
  readonly title: string;
  /** Commands that have to be installed. */
  readonly needs?: readonly string[];
  prepare(environment: Environment): Promise<PreparedCase>;
}

/** What the cases share. */
export interface Environment {
  /** Where data sets lie; removed afterwards unless the user named it. */
  readonly directory: string;
  /** Bytes of the main image. */
  readonly imageSize: number;
  /** Files of the big tree. */
  readonly treeFiles: number;
  dataset(plan?: ImagePlan): Dataset;
}

/** `a`'s speed as a multiple of `b`'s. */
export function speedRatio(a: string, b: string): (medians: Medians) => number | undefined {
  return (medians) => {
    const [mine, other] = [medians.seconds(a), medians.seconds(b)];
    return mine === undefined || other === undefined ? undefined : other / mine;
  };
}

const MiB = 1024 * 1024;

/** 8 chunks at once by default, each as stored and as decoded. */
const inFlightMiB = 2 * 8 * 4;

/** The wish that every case has: memory within the cache and what is in flight, plus 150 MiB. */
export function memoryWithin(
  contestant: string,
  cacheBytes: number,
  allowedMiB = inFlightMiB + 150,
): Wanted {
  const limit = Math.round(cacheBytes / MiB) + allowedMiB;
  return {
    what: `peak memory of ${contestant}`,
    bound: 'at most',
    limit,
    unit: ' MiB',
    value: (medians) => {
      const bytes = medians.peakBytes(contestant);
      return bytes === undefined ? undefined : bytes / MiB;
    },
  };
}

/** `name`'s median as a rate of `amount` per second. */
export function rate(name: string, amount: number): (medians: Medians) => number | undefined {
  return (medians) => {
    const seconds = medians.seconds(name);
    return seconds === undefined ? undefined : amount / seconds;
  };
}
