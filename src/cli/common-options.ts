/** Options that several commands have, with their parsers, so that each is declared and explained once. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { defaultPrefetch } from '../chunks/prefetcher.ts';
import { PbsfsError } from '../errors.ts';
import { type Namespace, parseNamespace } from '../formats/snapshot-path.ts';
import { parseTimeFormat, type TimeFormat } from '../tree/time-format.ts';
import { addCacheOptions, type CacheOptions } from './cache-options.ts';
import { exitCodeHelp } from './exit-code.ts';
import { type LogOptions, logLevels } from './logging.ts';

/** What it takes to open a repository. */
export interface RepositoryOptions {
  readonly repository?: string;
  readonly pveStorage?: string;
  readonly ns?: Namespace;
  readonly fingerprint?: string;
  readonly keyfile: readonly string[];
  readonly masterKeyfile?: string;
  readonly chunkDir: readonly string[];
}

/** What it takes to read from it. */
export interface ReadOptions extends RepositoryOptions, CacheOptions, LogOptions {
  readonly cacheChunks: number;
  readonly concurrency: number;
  readonly prefetch: number;
  readonly timeFormat?: TimeFormat;
}

/** As many as are brought ahead of one reader; each costs up to 16 MiB of memory while it is in flight. */
const defaultConcurrency = defaultPrefetch;

/** Repository, keys and log: every command that opens something. */
export function addRepositoryOptions(command: Command): Command {
  return command
    .option('-r, --repository <repository>', 'what to open (see Repositories); PBS_REPOSITORY')
    .option(
      '--pve-storage <id>',
      'what this storage of a Proxmox VE host is, with its password and key',
    )
    .addOption(
      new Option('--ns <namespace>', 'start below this namespace')
        .env('PBS_NAMESPACE')
        .argParser(orInvalid(parseNamespace)),
    )
    .option('--fingerprint <sha256>', "of the server's certificate; PBS_FINGERPRINT")
    .addOption(
      new Option('--keyfile <file>', 'encryption key, repeatable; the right one is picked')
        .argParser(appendTo)
        .default([], "the client's default key"),
    )
    .option(
      '--master-keyfile <file>',
      'private master key (PEM) for snapshots that carry their key',
    )
    .addOption(
      new Option('--chunk-dir <dir>', 'another place to look for chunks, repeatable')
        .argParser(appendTo)
        .default([], 'none'),
    )
    .option('-v, --verbose', 'say more')
    .option('-q, --quiet', 'errors only')
    .addOption(new Option('--log <level>', 'least severe messages to show').choices(logLevels))
    .option('--log-file <file>', 'append messages to this file instead of standard error');
}

/** The same, and how to read. */
export function addReadOptions(command: Command, defaultCacheChunks: number): Command {
  return addCacheOptions(addRepositoryOptions(command))
    .addOption(
      new Option('--cache-chunks <n>', 'chunks of 4 MiB kept in memory, at least 1')
        .argParser(countFrom(1))
        .default(defaultCacheChunks),
    )
    .addOption(concurrencyOption())
    .addOption(
      new Option('--prefetch <n>', 'chunks brought ahead of one who reads forward, 0 for none')
        .argParser(countFrom(0))
        .default(defaultPrefetch),
    )
    .addOption(
      new Option(
        '--time-format <format>',
        'names of snapshots, such as %Y-%m-%d_%H%M%S (UTC; default: as in PBS)',
      ).argParser(orInvalid(parseTimeFormat)),
    );
}

/** `--concurrency`, for commands that read chunks. */
export function concurrencyOption(): Option {
  return new Option('--concurrency <n>', 'chunks fetched and decoded at once, at least 1')
    .argParser(countFrom(1))
    .default(defaultConcurrency);
}

/** Ends `--help` with examples, the forms of a repository where it matters, and the exit codes. */
export function addHelpEnd(
  command: Command,
  parts: { examples: string; repository: boolean },
): void {
  const examples = `\nExamples:\n${indent(parts.examples)}`;
  const repositories = parts.repository ? `\n${repositoryHelp}` : '';
  command.addHelpText('after', `${examples}\n${repositories}\n${exitCodeHelp}`);
}

const repositoryHelp = `Repositories:
  /path, ./path, ../path, dir:PATH               a datastore directory; no server is needed
  [[user@realm[!token]@]host[:port]:]datastore   a live server; PBS_PASSWORD has the password or
                                                 token secret (or _FD, _FILE, _CMD behind it)
`;

function indent(text: string): string {
  return text
    .trim()
    .split('\n')
    .map((line) => `  ${line.trim()}`)
    .join('\n');
}

/** A parser of whole numbers from `least` on. */
function countFrom(least: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : -1;
    if (number >= least) return number;
    throw new InvalidArgumentError(`It must be a whole number of at least ${least}.`);
  };
}

function appendTo(text: string, previous: readonly string[] | undefined): readonly string[] {
  return [...(previous ?? []), text];
}

/** Lets commander name the option in front of our own message. */
function orInvalid<T>(parse: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof PbsfsError)) throw error;
      const hint = error.hint === undefined ? '' : ` (${error.hint})`;
      throw new InvalidArgumentError(`${error.message}${hint}`);
    }
  };
}
