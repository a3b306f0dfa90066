/** `pbsfs benchmark`: what this machine and a repository can do, and which settings that asks for. */
import { availableParallelism, cpus } from 'node:os';
import { Command, InvalidArgumentError, Option } from 'commander';
import { formatSnapshot } from '../../formats/snapshot-path.ts';
import { bestConcurrency } from '../../transfer/benchmark-archive.ts';
import {
  type BenchmarkOptions,
  benchmarkMachine,
  type Figure,
} from '../../transfer/benchmark-machine.ts';
import { abortOnSignals } from '../abort-signals.ts';
import { type ChosenArchive, chooseArchive } from '../benchmark-choice.ts';
import type { CommandContext } from '../command-context.ts';
import { addHelpEnd, addRepositoryOptions, type RepositoryOptions } from '../common-options.ts';
import { type LogOptions, openLogger } from '../logging.ts';
import { locateRepository, namesRepository } from '../open-repository.ts';
import { openTree } from '../open-tree.ts';
import { writeOut } from '../output.ts';
import { formatBytes } from '../progress-line.ts';

interface BenchmarkCommandOptions extends RepositoryOptions, LogOptions {
  readonly seconds: number;
  readonly json?: boolean;
}

/** The command for the program. */
export function createBenchmarkCommand(context: CommandContext): Command {
  const command = new Command('benchmark')
    .description('measure what this machine and a repository can do')
    .argument(
      '[path]',
      'archive to read, as in the mount; default: the largest of the newest snapshots',
    )
    .addOption(
      new Option('--seconds <n>', 'duration of each measure, of which there are about 15')
        .argParser(parseSeconds)
        .default(1),
    )
    .option('--json', 'one object');
  addRepositoryOptions(command);
  command.addHelpText('after', measuresHelp);
  addHelpEnd(command, {
    repository: true,
    examples: `
      pbsfs benchmark
      pbsfs benchmark -r backup@pbs@pbs.example.com:store1
      pbsfs benchmark -r /mnt/datastore vm/100/latest/drive-scsi0.img --json`,
  });
  return command.action(
    async (path: string | undefined, options: BenchmarkCommandOptions): Promise<void> => {
      await benchmark(path, options, context);
    },
  );
}

const measuresHelp = `
Without a repository only the machine is measured. Rates are of plain bytes, in units of a million; 'stored' counts
bytes as they are stored. Chunks that were read before may come from a cache of the server or of this machine.
`;

async function benchmark(
  path: string | undefined,
  options: BenchmarkCommandOptions,
  context: CommandContext,
): Promise<void> {
  using signals = abortOnSignals();
  const run: BenchmarkOptions = { seconds: options.seconds, signal: signals.signal };
  const report = new Report(options.json === true);
  const needsRepository = path !== undefined || namesRepository(options);
  // Wrong names and dead servers show before the machine is busy for seconds.
  const logger = openLogger(options);
  const target = needsRepository ? await locateRepository(options, context.ask, logger) : undefined;
  const reading = { ...options, cacheChunks: 1, concurrency: 1, prefetch: 0 };
  await using opened = target && (await openTree(target, reading, context.ask, logger));
  await using chosen =
    target && opened && (await chooseArchive(opened, target.namespace, path, signals.signal));
  await report.title(describeMachine());
  await report.add(benchmarkMachine(run));
  if (target !== undefined && chosen !== undefined) {
    await report.title(describeArchive(target.name, chosen));
    await report.add(chosen.benchmark.figures(run));
  }
  await report.end(target?.name, chosen);
}

function describeMachine(): string {
  return `${availableParallelism()} × ${cpus()[0]?.model.trim() ?? 'unknown'}, Node ${process.versions.node}`;
}

function describeArchive(repository: string, { id, benchmark }: ChosenArchive): string {
  const archive = `${formatSnapshot(id.snapshot)}/${id.filename}`;
  return `${repository}: ${archive}, ${formatBytes(benchmark.size)}, ${benchmark.chunkCount} chunks`;
}

/** Lines as the figures come, or one object at the end. */
class Report {
  readonly #asJson: boolean;
  readonly #figures: Figure[] = [];

  constructor(asJson: boolean) {
    this.#asJson = asJson;
  }

  async title(line: string): Promise<void> {
    if (!this.#asJson) await writeOut(`${line}\n`);
  }

  async add(figures: AsyncIterable<Figure>): Promise<void> {
    for await (const figure of figures) {
      this.#figures.push(figure);
      if (!this.#asJson) await writeOut(`${formatFigure(figure)}\n`);
    }
  }

  async end(repository: string | undefined, chosen: ChosenArchive | undefined): Promise<void> {
    const best = bestConcurrency(this.#figures);
    if (this.#asJson) {
      const report = jsonReport(this.#figures, repository, chosen, best);
      await writeOut(`${JSON.stringify(report, null, 2)}\n`);
      return;
    }
    if (chosen?.benchmark.hasRepeated) {
      await writeOut('  (every chunk was read more than once, which caches make faster)\n');
    }
    if (best !== undefined) await writeOut(`use --concurrency ${best} --prefetch ${best}\n`);
  }
}

const labels: Readonly<Record<Figure['name'], string>> = {
  sha256: 'SHA-256',
  'zstd-compress': 'zstd, compress',
  'zstd-decompress': 'zstd, decompress',
  'aes-gcm-encrypt': 'AES-256-GCM, encrypt',
  'aes-gcm-decrypt': 'AES-256-GCM, decrypt',
  verify: 'verify chunks',
  open: 'open',
  'first-byte': 'first byte',
  stored: 'stored chunks',
  verified: 'verified chunks',
};

/** `  SHA-256                  1234 MB/s   1 at once` */
function formatFigure({ name, atOnce, bytesPerSecond, milliseconds }: Figure): string {
  const label = `  ${labels[name].padEnd(22)}`;
  if (bytesPerSecond === undefined)
    return `${label}${(milliseconds ?? 0).toFixed(1).padStart(9)} ms`;
  const rate = (bytesPerSecond / 1e6).toFixed(bytesPerSecond < 1e8 ? 1 : 0);
  return `${label}${rate.padStart(9)} MB/s ${String(atOnce).padStart(4)} at once`;
}

function jsonReport(
  figures: readonly Figure[],
  repository: string | undefined,
  chosen: ChosenArchive | undefined,
  best: number | undefined,
): unknown {
  return {
    machine: {
      cpu: cpus()[0]?.model.trim() ?? null,
      cores: availableParallelism(),
      node: process.versions.node,
    },
    archive:
      chosen === undefined
        ? null
        : {
            repository,
            snapshot: formatSnapshot(chosen.id.snapshot),
            filename: chosen.id.filename,
            size: chosen.benchmark.size,
            chunks: chosen.benchmark.chunkCount,
            repeated: chosen.benchmark.hasRepeated,
          },
    figures: figures.map(({ name, atOnce, bytesPerSecond, milliseconds }) => ({
      name,
      at_once: atOnce,
      bytes_per_second: bytesPerSecond === undefined ? undefined : Math.round(bytesPerSecond),
      milliseconds,
    })),
    use: best === undefined ? null : { concurrency: best, prefetch: best },
  };
}

function parseSeconds(text: string): number {
  const seconds = /^\d{1,3}(\.\d{1,3})?$/.test(text) ? Number(text) : 0;
  if (seconds > 0) return seconds;
  throw new InvalidArgumentError('It must be a number of seconds such as 1 or 0.5.');
}
