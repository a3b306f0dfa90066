/** `pbsfs verify`: reads everything below a path and says what is not as it was backed up. */
import { Command } from 'commander';
import { formatError, isPbsfsError, type PbsfsError } from '../../errors.ts';
import type { Logger } from '../../log.ts';
import { type VerifyTotals, verifySnapshots } from '../../transfer/verify.ts';
import { Finding } from '../../transfer/verify-chunks.ts';
import { verifyTargets } from '../../transfer/verify-targets.ts';
import { parseTreePath } from '../../tree/tree-path.ts';
import { abortOnSignals } from '../abort-signals.ts';
import type { CommandContext } from '../command-context.ts';
import {
  addHelpEnd,
  addRepositoryOptions,
  concurrencyOption,
  type RepositoryOptions,
} from '../common-options.ts';
import { exitCodeOf, exitCodes } from '../exit-code.ts';
import { type LogOptions, openLogger } from '../logging.ts';
import { locateRepository } from '../open-repository.ts';
import { openTree } from '../open-tree.ts';
import { atPath, printFailure, writeOut } from '../output.ts';
import { formatRate, ProgressLine } from '../progress-line.ts';

interface VerifyCommandOptions extends RepositoryOptions, LogOptions {
  readonly concurrency: number;
  readonly progress?: boolean;
  readonly json?: boolean;
}

/** The command for the program. */
export function createVerifyCommand(context: CommandContext): Command {
  const command = new Command('verify')
    .description('read and check everything below a path')
    .argument('[path]', 'where to start, as in the mount; a group means all its snapshots', '/');
  addRepositoryOptions(command)
    .addOption(concurrencyOption())
    .option('--progress', 'show how far it is, also where there is no terminal')
    .option('--json', 'one object');
  command.addHelpText('after', checksHelp);
  addHelpEnd(command, { repository: true, examples });
  return command.action(async (path: string, options: VerifyCommandOptions) => {
    await verify(path, options, context);
  });
}

async function verify(
  path: string,
  options: VerifyCommandOptions,
  { ask }: CommandContext,
): Promise<void> {
  using signals = abortOnSignals();
  const { signal } = signals;
  const logger = openLogger(options);
  const quiet = options.quiet === true;
  using progress = new ProgressLine({ asked: options.progress === true, quiet });
  const outcome = new Outcome(options.json === true, progress);
  const target = await locateRepository(options, ask, logger);
  const reading = { ...options, cacheChunks: 1, prefetch: 0 };
  await using opened = await openTree(target, reading, ask, logger);
  const startedAt = performance.now();
  const targets = verifyTargets(opened.tree, parseTreePath(path), {
    signal,
    onError: (at, error) => outcome.addBad(new Finding(atPath(error, at))),
  });
  const totals = await verifySnapshots(opened.repository, targets, {
    keys: opened.keys,
    concurrency: options.concurrency,
    signal,
    onBad: (finding) => outcome.addBad(finding),
    onLocked: (reason) => outcome.addLocked(reason),
    onGone: (error) => logger('warn', `not verified: ${formatError(error)}`),
    onProgress: (now) =>
      progress.update(() => `${formatTotals(now, startedAt)}${outcome.counts()}`),
  });
  progress[Symbol.dispose]();
  await outcome.end(totals, startedAt, logger);
}

/** Lines as it comes, or one object at the end. */
class Outcome {
  readonly #asJson: boolean;
  readonly #progress: ProgressLine;
  readonly #bad: unknown[] = [];
  readonly #locked: unknown[] = [];
  #badCount = 0;
  #lockedCount = 0;
  #exitCode = 0;

  constructor(asJson: boolean, progress: ProgressLine) {
    this.#asJson = asJson;
    this.#progress = progress;
  }

  addBad(finding: Finding): void {
    this.#badCount++;
    // Damage tells more than a directory that could not be listed.
    const isDamage = isPbsfsError(finding.error, 'corrupt', 'chunk-missing');
    if (this.#exitCode !== exitCodes.corrupt) {
      this.#exitCode = isDamage ? exitCodes.corrupt : this.#exitCode || exitCodeOf(finding.error);
    }
    if (this.#asJson) this.#bad.push(jsonFinding(finding));
    else this.#print(finding.error, describeHits(finding));
  }

  addLocked(reason: PbsfsError): void {
    this.#lockedCount++;
    if (this.#asJson) {
      this.#locked.push({ snapshot: reason.context.snapshot, error: reason.message });
    } else this.#print(reason, '');
  }

  /** `, 2 bad, 1 locked` */
  counts(): string {
    const bad = this.#badCount === 0 ? '' : `, ${this.#badCount} bad`;
    return this.#lockedCount === 0 ? bad : `${bad}, ${this.#lockedCount} locked`;
  }

  async end(totals: VerifyTotals, startedAt: number, logger: Logger): Promise<void> {
    if (this.#asJson) {
      const report = {
        snapshots: totals.snapshots,
        archives: totals.archives,
        chunks: totals.chunks,
        locked_chunks: totals.lockedChunks,
        bytes: totals.bytes,
        bad: this.#bad,
        locked: this.#locked,
      };
      await writeOut(`${JSON.stringify(report, null, 2)}\n`);
    } else {
      const counts = this.counts() || ', all good';
      logger('info', `verified ${formatTotals(totals, startedAt)}${counts}`);
    }
    const lockedCode = this.#lockedCount === 0 ? 0 : exitCodes['key-missing'];
    process.exitCode ??= this.#exitCode || lockedCode;
  }

  #print(error: PbsfsError, behind: string): void {
    this.#progress[Symbol.dispose]();
    printFailure('verify', error);
    if (behind !== '') process.stderr.write(`  ${behind}\n`);
  }
}

function formatTotals(totals: VerifyTotals, startedAt: number): string {
  const { snapshots, archives, chunks, bytes } = totals;
  const counts = [count(snapshots, 'snapshot'), count(archives, 'archive'), count(chunks, 'chunk')];
  return `${counts.join(', ')}, ${formatRate(bytes, startedAt)}`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

/** More than that is for --json. */
const maxFilesShown = 10;

function describeHits({ files, hitsMetadata }: Finding): string {
  const shown = [...files].slice(0, maxFilesShown);
  if (files.size > shown.length) shown.push(`${files.size - shown.length} more (see --json)`);
  if (hitsMetadata) shown.push('metadata of the archive');
  return shown.length === 0 ? '' : `hits ${shown.join(', ')}`;
}

function jsonFinding({ error, files, hitsMetadata }: Finding): unknown {
  const { snapshot, archive, path, offset, length, digest } = error.context;
  const place = { snapshot, archive, path, offset, length, digest };
  const hits = files.size > 0 || hitsMetadata ? { files: [...files], metadata: hitsMetadata } : {};
  return { ...place, code: error.code, error: error.message, ...hits };
}

const checksHelp = `
Checked are manifests with their signatures, blobs, indexes, and every chunk, which is read once however many
archives share it, also one of zeros. What is bad is named by snapshot, archive, offset and, in pxar archives, by the
files that it hits. Without the key of an encrypted snapshot its signature is not checked, and its chunks only by
their CRC: it counts as locked, and the command ends with 5 unless something is bad (6).
`;

const examples = `
pbsfs verify -r /mnt/datastore                        everything
pbsfs verify -r /mnt/datastore vm/100                 all snapshots of a group
pbsfs verify -r /mnt/datastore host/web/latest/root.pxar --json`;
