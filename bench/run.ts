/**
 * `npm run bench`: runs the cases, prints their tables and, where it ran all of them, writes RESULTS.md and the chart of
 * docs/performance.md. Every ratio compares medians of one run of this program, on the same machine and with the
 * contestants in turn.
 *
 *   npm run bench -- --list
 *   npm run bench -- --quick                   everything once on little data: shows that it runs, not how fast
 *   npm run bench -- --only sequential --only direct --runs 3 --size 512M --data /var/tmp/bench
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { bigFile } from './cases/big-file.ts';
import { decode } from './cases/decode.ts';
import { diskCache } from './cases/disk-cache.ts';
import { firstTouch } from './cases/first-touch.ts';
import { largeIndex } from './cases/large-index.ts';
import { prefetch } from './cases/prefetch.ts';
import { randomCachedBy1, randomCachedBy4 } from './cases/random-cached.ts';
import { restore } from './cases/restore.ts';
import { buffered, direct } from './cases/sequential.ts';
import { server } from './cases/server.ts';
import { sparseConvert } from './cases/sparse-convert.ts';
import { treeCat, treeFind, treeList, treeReady } from './cases/tree.ts';
import { drawChart } from './chart.ts';
import type { BenchCase, Environment, Sample } from './support/bench-case.ts';
import { makeDataset } from './support/dataset.ts';
import { isInstalled } from './support/processes.ts';
import { type CaseResult, formatCase, formatHead, formatSummary } from './support/report.ts';

const cases: readonly BenchCase[] = [
  buffered,
  direct,
  decode,
  server,
  restore,
  prefetch,
  firstTouch,
  randomCachedBy1,
  randomCachedBy4,
  sparseConvert,
  diskCache,
  largeIndex,
  treeReady,
  treeList,
  treeFind,
  treeCat,
  bigFile,
];

const MiB = 1024 * 1024;
/** What the issue of pxar archives asks for: so many files, and half as many again in one directory. */
const fullTreeFiles = 100_000;
const quickTreeFiles = 2000;

function parseSize(text: string): number {
  const [, digits, unit] = /^(\d+)([MG])$/.exec(text) ?? [];
  if (digits === undefined) throw new Error(`--size ${text}: expected a number with M or G`);
  return Number(digits) * (unit === 'G' ? 1024 * MiB : MiB);
}

function openEnvironment(directory: string, size: number, files: number): Environment {
  // A whole number of chunks, but for the last one of 1 MiB and a sector.
  const imageSize = size - 3 * MiB + 512;
  return {
    directory,
    imageSize,
    treeFiles: files,
    dataset: (plan = { id: '100', size: imageSize }) => makeDataset(join(directory, 'store'), plan),
  };
}

interface Amount {
  readonly runs: number;
  readonly warmUps: number;
}

async function runCase(
  benchCase: BenchCase,
  environment: Environment,
  { runs, warmUps }: Amount,
): Promise<CaseResult> {
  await using prepared = await benchCase.prepare(environment);
  const { contestants, wanted, work } = prepared;
  const samples = new Map<string, Sample[]>(contestants.map(({ name }) => [name, []]));
  for (let round = 0; round < warmUps + runs; round++) {
    for (const { name, countsOnly, run } of contestants) {
      if (countsOnly === true && round > 0) continue;
      const sample = await run();
      if (countsOnly === true) samples.get(name)?.push({ ...sample, seconds: Number.NaN });
      else if (round >= warmUps) samples.get(name)?.push(sample);
    }
  }
  return { benchCase, work, wanted, samples };
}

/** A case that fails does not take the others with it. */
async function runOrTell(
  benchCase: BenchCase,
  environment: Environment,
  amount: Amount,
): Promise<CaseResult | string> {
  try {
    return await runCase(benchCase, environment, amount);
  } catch (error) {
    console.error(error);
    process.exitCode = 1;
    return 'it failed';
  }
}

async function whyNot({ needs = [] }: BenchCase): Promise<string | undefined> {
  for (const command of needs) {
    if (!(await isInstalled(command))) return `${command} is not installed`;
  }
  return undefined;
}

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '5' },
    size: { type: 'string', default: '2G' },
    only: { type: 'string', multiple: true },
    data: { type: 'string' },
    quick: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
  },
});
if (values.list) {
  for (const { name, title } of cases) console.log(`${name.padEnd(20)} ${title}`);
  process.exit(0);
}
const { quick, only } = values;
const chosen = cases.filter(({ name }) => only?.includes(name) ?? true);
if (chosen.length === 0) throw new Error('no such case: --list names them');
const runs = { runs: quick ? 1 : Number(values.runs), warmUps: quick ? 0 : 1 };
const [load = 0] = loadavg();
const directory = resolve(values.data ?? mkdtempSync(join(tmpdir(), 'pbsfs-bench-')));
mkdirSync(directory, { recursive: true });
try {
  const size = parseSize(quick ? '128M' : values.size);
  const environment = openEnvironment(directory, size, quick ? quickTreeFiles : fullTreeFiles);
  const results: CaseResult[] = [];
  const sections: string[] = [];
  for (const benchCase of chosen) {
    const outcome = (await whyNot(benchCase)) ?? (await runOrTell(benchCase, environment, runs));
    if (typeof outcome !== 'string') results.push(outcome);
    const section =
      typeof outcome === 'string'
        ? `## ${benchCase.title}\n\nNot run: ${outcome}.\n`
        : formatCase(outcome);
    sections.push(section);
    console.log(section);
  }
  if (only === undefined && !quick) {
    const { imageSize, treeFiles } = environment;
    const facts = { runs: runs.runs, imageSize, treeFiles, load };
    const head = [await formatHead(facts), formatSummary(results)];
    writeFileSync(new URL('RESULTS.md', import.meta.url), [...head, ...sections].join('\n'));
    writeFileSync(new URL('../docs/performance.svg', import.meta.url), drawChart(results));
  }
} finally {
  if (values.data === undefined) rmSync(directory, { recursive: true, force: true });
}
