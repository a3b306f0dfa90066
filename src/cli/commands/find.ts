/** `pbsfs find`: which backups hold a file, by name, kind, size and time. */
import { Command, Option } from 'commander';
import { type Found, findEntries, onlyVersions } from '../../transfer/find.ts';
import { type NameGlob, parseNameGlob } from '../../transfer/name-glob.ts';
import type { BackupTree } from '../../tree/backup-tree.ts';
import type { Node } from '../../tree/node.ts';
import { resolvePath } from '../../tree/resolve.ts';
import { formatTreePath, parseTreePath } from '../../tree/tree-path.ts';
import type { CommandContext } from '../command-context.ts';
import { addHelpEnd, addReadOptions, type ReadOptions } from '../common-options.ts';
import { parseKinds, parseSizeTest, parseTime } from '../find-arguments.ts';
import { GatheredOutput } from '../gathered-output.ts';
import { typeLetters } from '../json-entry.ts';
import { withTree } from '../open-tree.ts';
import { atPath, reportFailure } from '../output.ts';

interface FindCommandOptions extends ReadOptions {
  readonly name: readonly NameGlob[];
  readonly type?: ReadonlySet<Node['kind']>;
  readonly size: readonly ((bytes: number) => boolean)[];
  readonly newer?: number;
  readonly older?: number;
  readonly unique?: boolean;
  readonly json?: boolean;
  readonly print0?: boolean;
}

/** Chunks of catalogs and metadata. */
const defaultCacheChunks = 16;

/** The command for the program. */
export function createFindCommand(context: CommandContext): Command {
  const command = new Command('find')
    .description('search one snapshot, all snapshots of a group, or everything')
    .argument('[path]', 'where to start, as in the mount; the top when none is given')
    .addOption(
      new Option('--name <glob>', 'the name fits, as for find(1); repeatable, one of them has to')
        .argParser((text: string, previous: readonly NameGlob[]) => [
          ...previous,
          parseNameGlob(text),
        ])
        .default([], 'any'),
    )
    .addOption(
      new Option(
        '--type <letters>',
        'f file, d directory, l link, b c p s; several as f,l',
      ).argParser(parseKinds),
    )
    .addOption(
      new Option('--size <n>', 'files of more (+N), less (-N) or exactly N bytes; k, M, G behind')
        .argParser((text: string, previous: FindCommandOptions['size']) => [
          ...previous,
          parseSizeTest(text),
        ])
        .default([], 'any'),
    )
    .addOption(new Option('--newer <time>', 'changed after that').argParser(parseTime))
    .addOption(new Option('--older <time>', 'changed before that').argParser(parseTime))
    .option('--unique', 'of each file in a group, only versions that differ in size or time')
    .option('--json', 'one array of objects')
    .option('-0, --print0', 'paths alone, as they are, with a NUL behind each');
  addReadOptions(command, defaultCacheChunks);
  command.addHelpText('after', outputHelp);
  addHelpEnd(command, { repository: true, examples });
  return command.action(async (path: string | undefined, options: FindCommandOptions) => {
    await withTree(options, context, async (tree) => {
      await find(tree, path ?? '/', options);
    });
  });
}

async function find(tree: BackupTree, start: string, options: FindCommandOptions): Promise<void> {
  const { path } = await resolvePath(tree, parseTreePath(start));
  const query = {
    names: options.name,
    kinds: options.type,
    sizes: options.size,
    newer: options.newer,
    older: options.older,
  };
  const all = findEntries(tree.root, path, query, {
    onError: (at, error) => reportFailure('find', atPath(error, at)),
  });
  const found = options.unique ? onlyVersions(all) : all;
  const output = new GatheredOutput();
  if (options.json) await printJson(found, output);
  else
    for await (const entry of found)
      await output.write(options.print0 ? rawPath(entry) : line(entry));
  await output.flush();
}

/** Path, size, time. Paths have no tabs: those are escaped. */
function line({ path, kind, size, mtime }: Found): string {
  const slash = kind === 'directory' ? '/' : '';
  return `${formatTreePath(path)}${slash}\t${size ?? '-'}\t${formatTime(mtime.seconds)}\n`;
}

function rawPath({ path }: Found): Buffer {
  return Buffer.from(`${path.map((name) => name.toString('latin1')).join('/')}\0`, 'latin1');
}

/** UTC, as the names of snapshots are. */
function formatTime(seconds: number): string {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? `@${seconds}` : date.toISOString().replace('.000Z', 'Z');
}

async function printJson(found: AsyncIterable<Found>, output: GatheredOutput): Promise<void> {
  let separator = '[\n';
  for await (const { path, kind, size, mtime } of found) {
    const raw = Buffer.from(path.map((name) => name.toString('latin1')).join('/'), 'latin1');
    const entry = {
      path: formatTreePath(path),
      path_b64: raw.toString('base64'),
      type: typeLetters[kind],
      size: size ?? null,
      mtime: mtime.seconds,
    };
    await output.write(separator + JSON.stringify(entry));
    separator = ',\n';
  }
  await output.write(separator === '[\n' ? '[]\n' : '\n]\n');
}

const outputHelp = `
Prints path, size and time (UTC), with tabs between them. A time is a date such as 2023-11-14 or 2023-11-14T22:13:20Z
(local time without a zone), @SECONDS, or an age such as 7d. Catalogs are used where a snapshot has one.
`;

const examples = `
pbsfs find -r /mnt/datastore --name 'id_*' host/web               in all snapshots of a group
pbsfs find -r /mnt/datastore --name passwd --unique host/web      when it changed
pbsfs find -r /mnt/datastore --type f --size +1G --newer 7d ct/101/latest`;
