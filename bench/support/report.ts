/** Results as Markdown tables, on the terminal and in `RESULTS.md` alike. */
import { cpus, totalmem } from 'node:os';
import type { BenchCase, PreparedCase, Wanted, Work } from './bench-case.ts';
import { run } from './processes.ts';
import { mediansOf, type Samples } from './statistics.ts';

export interface CaseResult {
  readonly benchCase: Pick<BenchCase, 'name' | 'title'>;
  readonly work: Work;
  readonly wanted: PreparedCase['wanted'];
  readonly samples: Samples;
}

const MiB = 1024 * 1024;

/** The middle of the report: one section for each case. */
export function formatCase({ benchCase, work, wanted, samples }: CaseResult): string {
  const medians = mediansOf(samples);
  const rows = [...samples.keys()].map((name) => {
    const seconds = (samples.get(name) ?? []).map((sample) => sample.seconds);
    const median = medians.seconds(name) ?? Number.NaN;
    const range = [Math.max(...seconds), Math.min(...seconds)].map((s) => formatWork(work, s));
    return row([
      name,
      `${formatWork(work, median)} ${work.unit}`,
      range.join('–'),
      formatOptional(medians.cpuSeconds(name), 2, ' s'),
      formatOptional(scaled(medians.peakBytes(name), MiB), 0, ' MiB'),
    ]);
  });
  return [
    `## ${benchCase.title}`,
    '',
    row(['', 'median', 'worst–best', 'CPU', 'peak memory']),
    row(['---', '---:', '---:', '---:', '---:']),
    ...rows,
    '',
    ...wanted.map((one) => formatWanted(one, one.value(medians))),
    '',
  ].join('\n');
}

function formatWanted({ what, bound, limit, unit = ' ×' }: Wanted, value?: number): string {
  if (value === undefined) return `- not measured: ${what}`;
  const isMet = bound === 'at least' ? value >= limit : value <= limit;
  const digits = unit === ' ×' ? 2 : 0;
  return `- ${isMet ? '✓' : '✗'} **${value.toFixed(digits)}${unit}** ${what} (wanted: ${bound} ${limit}${unit})`;
}

function formatWork({ amount, unit }: Work, seconds: number): string {
  return unit === 'ms' ? (seconds * 1000).toFixed(1) : (amount / seconds).toFixed(0);
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

/** Machine, date and commit: figures mean nothing without them. */
export async function formatHead(runs: number): Promise<string> {
  const [first] = cpus();
  const commit = (await run('git', ['describe', '--always', '--dirty'])).trim();
  const kernel = (await run('uname', ['-sr'])).trim();
  return [
    '# Benchmark results',
    '',
    `Written by \`npm run bench\`; what the figures mean is told in docs/performance.md.`,
    '',
    `- machine: ${cpus().length} × ${first?.model.trim() ?? 'unknown processor'}, ${Math.round(totalmem() / 1024 ** 3)} GiB`,
    `- system: ${kernel}, Node ${process.version}`,
    `- date: ${new Date().toISOString().slice(0, 10)}, commit ${commit}`,
    `- ${runs} runs each after one to warm up, in turn; stored chunks are in the page cache, mounts are fresh`,
    '',
  ].join('\n');
}
