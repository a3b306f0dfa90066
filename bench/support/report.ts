/** Results as Markdown tables, on the terminal and in `RESULTS.md` alike. */
import { cpus, release, totalmem } from 'node:os';
import type { BenchCase, PreparedCase, Sample, Wanted, Work } from './bench-case.ts';
import { run } from './processes.ts';
import { mediansOf, type Samples } from './statistics.ts';

export interface CaseResult {
  readonly benchCase: Pick<BenchCase, 'name' | 'title'>;
  readonly work: Work;
  readonly wanted: PreparedCase['wanted'];
  readonly samples: Samples;
}

const MiB = 1024 * 1024;
const GiB = 1024 * MiB;
const header = ['', 'median', 'worst–best', 'CPU', 'peak memory', 'counted'];

/** The middle of the report: one section for each case. */
export function formatCase({ benchCase, work, wanted, samples }: CaseResult): string {
  const medians = mediansOf(samples);
  const rows = [...samples].map(([name, runs]) => {
    const counts = formatCounts(runs);
    // Its time means nothing.
    if (runs.every((sample) => Number.isNaN(sample.seconds)))
      return row([name, '', '', '', '', counts]);
    const seconds = runs.map((sample) => sample.seconds);
    const median = medians.seconds(name) ?? Number.NaN;
    const range = [Math.max(...seconds), Math.min(...seconds)].map((s) => formatWork(work, s));
    return row([
      name,
      `${formatWork(work, median)} ${work.unit}`,
      range.join('–'),
      formatCpu(work, medians.cpuSeconds(name)),
      formatOptional(scaled(medians.peakBytes(name), MiB), 0, ' MiB'),
      counts,
    ]);
  });
  return [
    `## ${benchCase.title}`,
    '',
    row(header),
    row(['---', '---:', '---:', '---:', '---:', '---']),
    ...rows,
    '',
    ...wanted.map((one) => formatItem(formatWanted(one, one.value(medians)))),
    '',
  ].join('\n');
}

/** Every wish of every case in one table. */
export function formatSummary(results: readonly CaseResult[]): string {
  const rows = results.flatMap(({ benchCase, wanted, samples }) => {
    const medians = mediansOf(samples);
    return wanted.map((one, i) => {
      const [mark, reached, what, wish] = formatWanted(one, one.value(medians));
      return row([i === 0 ? benchCase.title : '', what, wish, reached, mark]);
    });
  });
  return [
    row(['case', 'what', 'wanted', 'reached', '']),
    row(['---', '---', '---', '---:', '---']),
    ...rows,
    '',
  ].join('\n');
}

type Judged = readonly [mark: string, reached: string, what: string, wish: string];

function formatItem([mark, reached, what, wish]: Judged): string {
  return `- ${mark} ${reached} ${what} (wanted: ${wish})`;
}

function formatWanted(
  { what, bound, limit, unit = ' ×' }: Wanted,
  value: number | undefined,
): Judged {
  const digits = unit === ' ×' || unit === ' s' ? 2 : 0;
  const wish = `${bound} ${limit}${unit}`;
  if (value === undefined) return ['–', 'not measured', what, wish];
  const isMet = bound === 'at least' ? value >= limit : value <= limit;
  return [isMet ? '✓' : '✗', `**${value.toFixed(digits)}${unit}**`, what, wish];
}

function formatWork({ amount, unit }: Work, seconds: number): string {
  return unit === 'ms' ? (seconds * 1000).toFixed(1) : (amount / seconds).toFixed(0);
}

/** For each GiB where bytes are what is moved, so that sizes compare. */
function formatCpu({ amount, unit }: Work, seconds: number | undefined): string {
  if (unit !== 'MB/s') return formatOptional(seconds, 2, ' s');
  const gigabytes = (amount * 1e6) / GiB;
  return formatOptional(scaled(seconds, gigabytes), 2, ' s/GiB');
}

function formatCounts(runs: readonly Sample[]): string {
  const names = Object.keys(runs[0]?.counts ?? {});
  const samples = new Map([['', runs]]);
  const medians = mediansOf(samples);
  return names.map((name) => `${medians.count('', name)} ${name}`).join(', ');
}

function scaled(value: number | undefined, unit: number): number | undefined {
  return value === undefined ? undefined : value / unit;
}

function formatOptional(value: number | undefined, digits: number, unit: string): string {
  return value === undefined ? '' : `${value.toFixed(digits)}${unit}`;
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}

export interface RunFacts {
  readonly runs: number;
  readonly imageSize: number;
  readonly treeFiles: number;
  /** Processes that wanted to run before the first case did. */
  readonly load: number;
}

/** Machine, date and commit: figures mean nothing without them. */
export async function formatHead({ runs, imageSize, treeFiles, load }: RunFacts): Promise<string> {
  const [first] = cpus();
  const commit = (await run('git', ['describe', '--always', '--dirty'])).trim();
  const kernel = release().split('.').slice(0, 2).join('.');
  return [
    '# Benchmark results',
    '',
    'Written by `npm run bench`; [docs/performance.md](../docs/performance.md) tells what the figures mean.',
    '',
    `- machine: ${cpus().length} × ${first?.model.trim() ?? 'unknown processor'}, ${Math.round(totalmem() / GiB)} GiB`,
    `- system: Linux ${kernel}, Node ${process.version}`,
    `- date: ${new Date().toISOString().slice(0, 10)}, commit ${commit}`,
    `- data: an image of ${(imageSize / GiB).toFixed(2)} GiB; a tree of ${treeFiles} files, half as many again in one directory`,
    `- runs: ${runs} each after one to warm up, in turn; stored chunks are in the page cache, mounts are fresh`,
    `- load of the machine before: ${load.toFixed(1)}`,
    '',
  ].join('\n');
}
