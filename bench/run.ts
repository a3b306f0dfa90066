/**
 * `npm run bench`: runs the cases, prints their tables and, where it ran all of them, writes
 * RESULTS.md. Every ratio compares medians of
 * one run of this program, on the same machine and with the contestants in turn.
 *
 *   npm run bench -- --list
 *   npm run bench -- --only sequential --only direct --runs 3 --size 512M --data /var/tmp/bench
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { randomCachedBy1, randomCachedBy4 } from './cases/random-cached.ts';
import { buffered, direct } from './cases/sequential.ts';
import type { BenchCase, Environment, Sample } from './support/bench-case.ts';
import { makeDataset } from './support/dataset.ts';
import { type CaseResult, formatCase, formatHead } from './support/report.ts';

const cases: readonly BenchCase[] = [buffered, direct, randomCachedBy1, randomCachedBy4];

const MiB = 1024 * 1024;

function parseSize(text: string): number {
  const [, digits, unit] = /^(\d+)([MG])$/.exec(text) ?? [];
  if (digits === undefined) throw new Error(`--size ${text}: expected a number with M or G`);
  return Number(digits) * (unit === 'G' ? 1024 * MiB : MiB);
}

function openEnvironment(directory: string, size: number): Environment {
  // A whole number of chunks, but for the last one of 1 MiB and a sector.
  const imageSize = size - 3 * MiB + 512;
  return {
    directory,
    imageSize,
    dataset: (plan = { id: '100', size: imageSize }) => makeDataset(join(directory, 'store'), plan),
  };
}

async function runCase(
  benchCase: BenchCase,
  environment: Environment,
  runs: number,
): Promise<CaseResult> {
  await using prepared = await benchCase.prepare(environment);
  const { contestants, wanted, work } = prepared;
  const samples = new Map<string, Sample[]>(contestants.map(({ name }) => [name, []]));
  for (let round = 0; round <= runs; round++) {
    for (const contestant of contestants) {
      const sample = await contestant.run();
      // The first round warms up.
      if (round > 0) samples.get(contestant.name)?.push(sample);
    }
  }
  return { benchCase, work, wanted, samples };
}

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '5' },
    size: { type: 'string', default: '2G' },
    only: { type: 'string', multiple: true },
    data: { type: 'string' },
    list: { type: 'boolean', default: false },
  },
});
if (values.list) {
  for (const { name, title } of cases) console.log(`${name.padEnd(20)} ${title}`);
  process.exit(0);
}
const chosen = cases.filter(({ name }) => values.only?.includes(name) ?? true);
if (chosen.length === 0) throw new Error('no such case: --list names them');
const directory = values.data ?? mkdtempSync(join(tmpdir(), 'pbsfs-bench-'));
try {
  const environment = openEnvironment(directory, parseSize(values.size));
  const runs = Number(values.runs);
  const sections = [await formatHead(runs)];
  for (const benchCase of chosen) {
    const section = formatCase(await runCase(benchCase, environment, runs));
    console.log(section);
    sections.push(section);
  }
  if (values.only === undefined) {
    writeFileSync(new URL('RESULTS.md', import.meta.url), sections.join('\n'));
  }
} finally {
  if (values.data === undefined) rmSync(directory, { recursive: true, force: true });
}
