/** `pbsfs mount`: shows a repository at a directory, in the foreground or in the background. */
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { PbsfsError } from '../../errors.ts';
import { overrideAttributes, ownerRoot } from '../../fuse/attribute-mapping.ts';
import type { DriverName, MountOptions } from '../../fuse/driver.ts';
import { parseDescriptor, prepareMountPoint } from '../../fuse/mount-point.ts';
import { driverNames, selectDriver } from '../../fuse/select-driver.ts';
import type { Logger } from '../../log.ts';
import { runInBackground } from '../background.ts';
import type { CommandContext } from '../command-context.ts';
import { addHelpEnd, addReadOptions, type ReadOptions } from '../common-options.ts';
import { catchEndSignals } from '../end-signals.ts';
import { exitCodes } from '../exit-code.ts';
import {
  createLogger,
  createSystemLogSink,
  formatLogLine,
  logLevelOf,
  openFileSink,
  openLogger,
} from '../logging.ts';
import { type MountOptions as ParsedMountOptions, parseMountOptions } from '../mount-options.ts';
import { locateRepository, type RepositoryTarget } from '../open-repository.ts';
import { type OpenedTree, openTree } from '../open-tree.ts';
import { OutputClosed, writeOut } from '../output.ts';
import { serveMount } from '../serve-mount.ts';
import { keepHeapSmall } from '../small-heap.ts';

interface MountCommandOptions extends ReadOptions {
  readonly o: readonly string[];
  readonly daemon?: boolean;
  readonly driver: DriverName | 'auto';
  readonly onError: 'eio' | 'zero';
  readonly ownerRoot?: boolean;
  readonly helper?: boolean;
  readonly sloppy?: boolean;
  readonly fake?: boolean;
}

/** Chunks of 4 MiB: 256 MiB for the whole mount. */
const defaultCacheChunks = 64;

/** The command for the program. */
export function createMountCommand(context: CommandContext): Command {
  const command = new Command('mount')
    .description('show a repository as a directory, read-only')
    .usage('[options] [repository] <dir>')
    .argument('[repository]', 'wins over --repository')
    .argument('[dir]', 'mount point, an empty directory')
    .addOption(
      new Option('-o <options>', 'mount options, comma-joined or repeated (see below)')
        .argParser((text: string, previous: readonly string[]) => [...previous, text])
        .default([], 'none'),
    )
    .option('--daemon', 'go to the background; returns when the mount answers')
    .addOption(new Option('--driver <name>', 'how to mount').choices(driverNames).default('auto'))
    .addOption(
      new Option('--on-error <what>', 'for bytes that cannot be verified: EIO, or zeros and exit 6')
        .choices(['eio', 'zero'])
        .default('eio'),
    )
    .option('--owner-root', 'show everything as owned by root')
    .addOption(new Option('--helper', 'called by mount(8)').hideHelp())
    .addOption(new Option('--sloppy', 'mount -s').hideHelp())
    .addOption(new Option('--fake', 'mount -f').hideHelp());
  addReadOptions(command, defaultCacheChunks);
  command.addHelpText('after', mountOptionsHelp);
  addHelpEnd(command, {
    repository: true,
    examples: `
      pbsfs mount /mnt/datastore /mnt/pbs
      pbsfs mount --daemon -o allow_other --keyfile key.json /mnt/datastore /mnt/pbs
      mount -t fuse.pbsfs -o ro,keyfile=/etc/key.json /mnt/datastore /mnt/pbs`,
  });
  return command.action(async (first?: string, second?: string) => {
    await runMount(command, context, first, second);
  });
}

const mountOptionsHelp = `
Mount options (-o):
  allow_other allow_root       let other users in (user_allow_other in /etc/fuse.conf, unless root)
  default_permissions          let the kernel check permission bits; implied by the two above
  uid=N gid=N umask=OCTAL      show everything with this owner, without these permission bits
  fsname=NAME max_read=BYTES auto_unmount nonempty noexec
  keyfile=FILE and so on       every long option above, without its dashes, as fstab needs it
  What says nothing to a read-only mount (rw nofail _netdev user noatime x-…) is ignored.`;

async function runMount(
  command: Command,
  context: CommandContext,
  first: string | undefined,
  second: string | undefined,
): Promise<void> {
  const mountOptions = readMountOptions(command);
  const given = command.opts<MountCommandOptions>();
  const [repository, directory] =
    second === undefined ? [given.repository, first] : [first, second];
  if (directory === undefined) {
    throw new PbsfsError('usage', 'no mount point given', { hint: "see 'pbsfs mount --help'" });
  }
  const options = { ...given, ...(repository === undefined ? {} : { repository }) };
  // mount(8) removes HOME, or leaves that of root; then it is the one of the passwd entry.
  if (options.helper === true) delete process.env['HOME'];
  if (options.daemon === true && context.background === undefined && options.fake !== true) {
    process.exitCode = await runInBackground(context.args);
    return;
  }
  const log = openMountLog(options, context);
  const target = await locateRepository(options, context.ask, log.logger);
  if (options.fake === true) return;
  await mountAndServe({ options, mountOptions, target, directory, log, context });
}

/** `-o`; the long options in it are set as if they stood on the command line. */
function readMountOptions(command: Command): ParsedMountOptions {
  const { o, sloppy } = command.opts<MountCommandOptions>();
  const longNames = command.options
    .filter((option) => !option.hidden && option.long !== '--daemon')
    .flatMap((option) => (option.long === undefined ? [] : [option.long.slice(2)]));
  const parsed = parseMountOptions(o, new Set(longNames), sloppy);
  if (parsed.remount) {
    throw new PbsfsError('unsupported', 'a mount cannot be changed by remounting', {
      hint: 'unmount it and mount it again',
    });
  }
  const { unknown } = command.parseOptions(
    parsed.longOptions.map(([name, value]) => `--${name}${value === undefined ? '' : `=${value}`}`),
  );
  const [bad] = unknown;
  if (bad === undefined) return parsed;
  throw new PbsfsError('usage', `mount option '${bad.slice(2).split('=', 1)[0]}' takes no value`);
}

interface MountJob {
  readonly options: MountCommandOptions;
  readonly mountOptions: ParsedMountOptions;
  readonly target: RepositoryTarget;
  readonly directory: string;
  readonly log: MountLog;
  readonly context: CommandContext;
}

async function mountAndServe(job: MountJob): Promise<void> {
  keepHeapSmall();
  const { options, target, context, log } = job;
  const mountPoint = resolve(job.directory);
  const driver = await selectDriver(options.driver);
  // All that can be said without the repository comes first: that may ask for passwords, and take long.
  if (parseDescriptor(mountPoint) === undefined) {
    await prepareMountPoint(mountPoint, {
      nonempty: job.mountOptions.nonempty,
      keepApart: localPaths(job),
    });
  }
  await using opened = await openTree(target, options, context.ask, log.logger);
  // Wrong names, missing rights and dead servers show now, not in the mount.
  await opened.tree.root.list();
  if (options.onError === 'zero') {
    log.logger('warn', 'bytes that cannot be verified will be shown as zeros (--on-error zero)');
  }
  using signals = catchEndSignals();
  await serveMount(
    {
      driver,
      root: opened.tree.root,
      directory: mountPoint,
      options: driverOptions(job, opened),
      onReady: () => tellReady(job),
    },
    signals,
  );
  if (opened.tree.damage > 0) process.exitCode ??= exitCodes.corrupt;
}

/** What is read or written on this machine while the mount answers. */
function localPaths({ options, target }: MountJob): readonly string[] {
  return options.cacheDir === undefined
    ? target.localPaths
    : [...target.localPaths, options.cacheDir];
}

async function tellReady({ target, directory, log, context }: MountJob): Promise<void> {
  if (context.background === undefined) {
    await printReady(target.name, directory);
    return;
  }
  // The directory that it was started in may have to be unmounted one day.
  process.chdir('/');
  log.detach();
  await context.background.ready();
}

async function printReady(repository: string, directory: string): Promise<void> {
  try {
    await writeOut(`mounted ${repository} at ${directory}\n`);
  } catch (error) {
    // Nobody waits for the line; the mount is there all the same.
    if (!(error instanceof OutputClosed)) throw error;
  }
}

function driverOptions(job: MountJob, { repository }: OpenedTree): MountOptions {
  const { options, target, log } = job;
  const { uid, gid, umask, maxRead, fsname, ...flags } = job.mountOptions;
  return {
    source: fsname ?? target.name,
    capacity: (signal) => repository.status(signal),
    logger: log.logger,
    mapAttributes: overrideAttributes({
      ...(options.ownerRoot === true ? ownerRoot : {}),
      ...(uid === undefined ? {} : { uid }),
      ...(gid === undefined ? {} : { gid }),
      ...(umask === undefined ? {} : { umask }),
    }),
    allowOther: flags.allowOther,
    allowRoot: flags.allowRoot,
    ...(flags.defaultPermissions ? { defaultPermissions: true } : {}),
    noexec: flags.noexec,
    nonempty: flags.nonempty,
    autoUnmount: flags.autoUnmount,
    ...(maxRead === undefined ? {} : { maxRead }),
    keepApart: localPaths(job),
  };
}

interface MountLog {
  readonly logger: Logger;
  /** The mount is up: nobody watches any more. */
  detach(): void;
}

/** In the background, lines go to the user's terminal too until the mount is up. */
function openMountLog(options: MountCommandOptions, { background }: CommandContext): MountLog {
  if (background === undefined) return { logger: openLogger(options), detach: () => {} };
  const lasting =
    options.logFile === undefined ? createSystemLogSink() : openFileSink(options.logFile);
  let isAttached = true;
  const logger = createLogger(logLevelOf(options), (line, level) => {
    lasting(line, level);
    if (isAttached) background.line(formatLogLine(line, level));
  });
  return {
    logger,
    detach: () => {
      isAttached = false;
    },
  };
}
