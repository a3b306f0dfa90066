/** `pbsfs restore`: brings files, directories, images and whole snapshots back, to disk or as a stream. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { PbsfsError } from '../../errors.ts';
import { Semaphore } from '../../semaphore.ts';
import { type PathPattern, parsePathPattern } from '../../transfer/path-pattern.ts';
import { type Resolved, resolvePath } from '../../tree/resolve.ts';
import { formatTreePath, parseTreePath } from '../../tree/tree-path.ts';
import { abortOnSignals, neverAborted } from '../abort-signals.ts';
import type { CommandContext } from '../command-context.ts';
import { addHelpEnd, addReadOptions, type ReadOptions } from '../common-options.ts';
import { openLogger } from '../logging.ts';
import { withTree } from '../open-tree.ts';
import { ProgressLine } from '../progress-line.ts';
import { restoreBytes } from '../restore-bytes.ts';
import type { RestoreJob } from '../restore-job.ts';
import { restoreStream, type StreamFormatName } from '../restore-stream.ts';
import { listSelection, restoreToDisk } from '../restore-to-disk.ts';

interface RestoreCommandOptions extends ReadOptions {
  readonly format?: StreamFormatName;
  readonly pattern: readonly PathPattern[];
  readonly stripComponents: number;
  readonly overwrite?: boolean;
  readonly resume?: boolean;
  readonly dryRun?: boolean;
  readonly skipZero?: boolean;
  readonly discard?: boolean;
  readonly progress?: boolean;
  readonly onError: 'eio' | 'zero';
}

/** Chunks that several files are read from at once, and those that the walk looks into ahead of them. */
const defaultCacheChunks = 16;

/** The command for the program. */
export function createRestoreCommand(context: CommandContext): Command {
  const command = new Command('restore')
    .description('bring back a file, a directory, an image or a whole snapshot')
    .argument('<path>', 'path as in the mount; a group alone means its newest snapshot')
    .argument('<target>', 'directory or file to make, a device, or - for standard output')
    .addOption(
      new Option('--format <format>', 'write one stream instead of files').choices([
        'tar',
        'zip',
        'pxar',
      ]),
    )
    .addOption(
      new Option('--pattern <glob>', 'only what matches, repeatable (see Patterns)')
        .argParser(appendPattern)
        .default([], 'everything'),
    )
    .addOption(
      new Option('--strip-components <n>', 'leading names to take off each path')
        .argParser(parseWholeNumber)
        .default(0),
    )
    .option('--overwrite', 'replace what is there; directories are never replaced by files')
    .option('--resume', 'go on with a restore that was broken off')
    .option('--dry-run', 'list what would be restored, and change nothing')
    .option('--skip-zero', 'image to a device that holds nothing but zeros: write only data')
    .option('--discard', 'image to a device: let it make the zeros, freeing the space')
    .option('--progress', 'show how far it is, also where there is no terminal')
    .addOption(
      new Option(
        '--on-error <what>',
        'for bytes that cannot be verified: fail, or zeros and exit 6',
      )
        .choices(['eio', 'zero'])
        .default('eio'),
    );
  addReadOptions(command, defaultCacheChunks);
  command.addHelpText('after', patternHelp);
  addHelpEnd(command, { repository: true, examples });
  return command.action(async (path: string, target: string, options: RestoreCommandOptions) => {
    await restore(path, target, options, context);
  });
}

async function restore(
  path: string,
  target: string,
  options: RestoreCommandOptions,
  context: CommandContext,
): Promise<void> {
  if (options.overwrite === true && options.resume === true) {
    throw new PbsfsError('usage', '--overwrite and --resume exclude each other');
  }
  const isStream = target === '-' || options.format !== undefined;
  using signals = isStream ? neverAborted() : abortOnSignals();
  const quiet = options.quiet === true;
  using progress = new ProgressLine({ asked: options.progress === true, quiet });
  await withTree(options, context, async (tree) => {
    const names = parseTreePath(path);
    const found = await resolvePath(tree, names, { group: 'newest', signal: signals.signal });
    const job: RestoreJob = {
      found,
      target,
      selection: { patterns: options.pattern, stripComponents: options.stripComponents },
      existing: options.resume ? 'resume' : options.overwrite ? 'replace' : 'refuse',
      skipZero: options.skipZero === true,
      discard: options.discard === true,
      concurrency: options.concurrency,
      budget: new Semaphore(options.concurrency),
      signal: signals.signal,
      logger: openLogger(options),
      progress,
      quiet,
    };
    checkOptions(job, options);
    await dispatch(job, options);
  });
}

async function dispatch(job: RestoreJob, options: RestoreCommandOptions): Promise<void> {
  const { node, path } = job.found;
  if (options.dryRun) await listSelection(job);
  else if (options.format !== undefined) await restoreStream(job, options.format);
  else if (job.target !== '-') await restoreToDisk(job);
  else if (node.kind === 'file') await restoreBytes(job, node, path, '-');
  else {
    throw usage(
      job.found,
      `is a ${node.kind}: it needs a form to be written in`,
      '--format tar, zip or pxar',
    );
  }
}

function checkOptions({ found }: RestoreJob, options: RestoreCommandOptions): void {
  const { pattern, stripComponents, skipZero, discard } = options;
  if (!found.node.immutable) {
    throw usage(found, 'is above all snapshots', 'name a group, a snapshot, or what is in one');
  }
  if (found.node.kind !== 'directory' && (pattern.length > 0 || stripComponents > 0)) {
    throw usage(found, 'is no directory', '--pattern and --strip-components select within one');
  }
  if (found.node.kind === 'directory' && (skipZero || discard)) {
    throw usage(found, 'is a directory', '--skip-zero and --discard are for images');
  }
}

function usage(found: Resolved, message: string, hint: string): PbsfsError {
  return new PbsfsError('usage', message, {
    context: { path: formatTreePath(found.path) },
    hint,
  });
}

function appendPattern(text: string, previous: readonly PathPattern[]): readonly PathPattern[] {
  return [...previous, parsePathPattern(text)];
}

function parseWholeNumber(text: string): number {
  if (!/^\d{1,4}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

const patternHelp = `
Patterns are those of .pxarexclude: /a/b starts at PATH, a/b matches anywhere, * and ? stop at a slash, **/ is any
number of directories, a/ a directory only, !a takes back what an earlier one matched. A directory that matches
brings all that is in it. A list that starts with ! starts from everything.
`;

const examples = `
pbsfs restore -r /mnt/datastore host/web /srv/web                 every archive of the newest snapshot
pbsfs restore -r /mnt/datastore host/web/latest/root.pxar/etc /tmp/etc --pattern '*.conf'
pbsfs restore -r /mnt/datastore vm/100/latest/drive-scsi0.img /dev/vg0/restored --discard
pbsfs restore -r /mnt/datastore ct/101/root.pxar - --format tar | tar -x -C /mnt/new`;
