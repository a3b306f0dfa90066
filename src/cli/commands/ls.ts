/** `pbsfs ls`: lists what a mount would show, without one. */
import { Command } from 'commander';
import { PbsfsError } from '../../errors.ts';
import type { BackupTree } from '../../tree/backup-tree.ts';
import type { Node } from '../../tree/node.ts';
import { resolvePath } from '../../tree/resolve.ts';
import { formatTreeName, parseTreePath } from '../../tree/tree-path.ts';
import type { CommandContext } from '../command-context.ts';
import { addHelpEnd, addReadOptions, type ReadOptions } from '../common-options.ts';
import { describeEntry } from '../json-entry.ts';
import { formatLongListing, formatTotal, type ListedEntry } from '../listing.ts';
import { withTree } from '../open-tree.ts';
import { atPath, reportFailure, writeOut } from '../output.ts';

interface LsOptions extends ReadOptions {
  readonly l?: boolean;
  readonly R?: boolean;
  readonly all?: boolean;
  readonly json?: boolean;
}

/** Attributes asked for at once: each may read an index from a disk or a server. */
const entriesAtOnce = 16;

/** The command for the program. */
export function createLsCommand(context: CommandContext): Command {
  const command = new Command('ls')
    .description('list namespaces, groups, snapshots and what is in them')
    .argument('[path...]', 'paths as in the mount; the top when none is given')
    .option('-l', 'mode, links, owner, group, size, time, name')
    .option('-R', 'list directories below too')
    .option('--all', 'unfinished snapshots too')
    .option('--json', "one array of objects, with the field names of PBS's API");
  addReadOptions(command, 1);
  addHelpEnd(command, {
    repository: true,
    examples: `
      pbsfs ls -r /mnt/datastore vm/100
      pbsfs ls -r /mnt/datastore -l vm/100/latest
      pbsfs ls -r 'backup@pbs!reader@pbs.example:store1' --json ns/customer-a/host`,
  });
  return command.action(async (paths: string[], options: LsOptions) => {
    await withTree(options, context, async (tree) => {
      await list(tree, paths.length === 0 ? ['/'] : paths, options);
    });
  });
}

/** One operand or one child: how it is shown, and where it is. */
interface Item {
  readonly text: string;
  readonly path: readonly Buffer[];
  readonly kind: Node['kind'];
  /** @throws PbsfsError `stale` where it has gone since it was listed. */
  load(): Promise<Node>;
}

async function list(
  tree: BackupTree,
  operands: readonly string[],
  options: LsOptions,
): Promise<void> {
  const items: Item[] = [];
  for (const text of operands) {
    try {
      const { path, node } = await resolvePath(tree, parseTreePath(text));
      items.push({ text, path, kind: node.kind, load: async () => node });
    } catch (error) {
      reportFailure('ls', error);
    }
  }
  const listing = options.json === true ? new JsonListing() : new TextListing(options.l === true);
  const isAlone = operands.length === 1 && options.R !== true;
  await listing.files(items.filter((item) => item.kind !== 'directory'));
  for (const item of items.filter(({ kind }) => kind === 'directory')) {
    await listDirectory(item, listing, options.R === true, isAlone);
  }
  await listing.end();
}

async function listDirectory(
  item: Item,
  listing: Listing,
  isRecursive: boolean,
  isAlone: boolean,
): Promise<void> {
  const children = await reporting(item, () => readChildren(item));
  if (children === undefined) return;
  await listing.directory(item, children, isAlone);
  if (!isRecursive) return;
  for (const child of children.filter(({ kind }) => kind === 'directory')) {
    await listDirectory(child, listing, isRecursive, isAlone);
  }
}

/** Sorted by bytes, as ls(1) does in the C locale. */
async function readChildren(item: Item): Promise<readonly Item[]> {
  const directory = await item.load();
  if (directory.kind !== 'directory') return [];
  const entries = (await directory.list()).toSorted((a, b) => Buffer.compare(a.name, b.name));
  const prefix = item.text.endsWith('/') ? item.text : `${item.text}/`;
  return entries.map(({ name, kind, node }) => ({
    text: prefix + formatTreeName(name),
    path: [...item.path, name],
    kind,
    load: async () => node ?? (await directory.lookup(name)) ?? throwGone(),
  }));
}

function throwGone(): never {
  throw new PbsfsError('stale', 'was removed since it was listed');
}

/** Undefined, and reported, where it fails: the others are still worth listing. */
async function reporting<T>(item: Item, action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    reportFailure('ls', atPath(error, item.path));
    return undefined;
  }
}

interface Listing {
  /** Operands that are no directories. */
  files(items: readonly Item[]): Promise<void>;
  directory(item: Item, children: readonly Item[], isAlone: boolean): Promise<void>;
  end(): Promise<void>;
}

class TextListing implements Listing {
  readonly #isLong: boolean;
  #hasOutput = false;

  constructor(isLong: boolean) {
    this.#isLong = isLong;
  }

  async files(items: readonly Item[]): Promise<void> {
    if (items.length === 0) return;
    await this.#write(items, (item) => item.text);
  }

  async directory(item: Item, children: readonly Item[], isAlone: boolean): Promise<void> {
    if (!isAlone) await writeOut(`${this.#hasOutput ? '\n' : ''}${item.text}:\n`);
    const nameOf = ({ path }: Item): string => formatTreeName(path.at(-1) ?? Buffer.alloc(0));
    await this.#write(children, nameOf, formatTotal);
  }

  async end(): Promise<void> {}

  async #write(
    items: readonly Item[],
    nameOf: (item: Item) => string,
    firstLine?: (entries: readonly ListedEntry[]) => string,
  ): Promise<void> {
    this.#hasOutput = true;
    if (!this.#isLong) {
      await writeLines(items.map(nameOf));
      return;
    }
    const entries = await inBatches(items, (item) => describeLong(item, nameOf(item)));
    const lines = formatLongListing(entries, Date.now() / 1000);
    await writeLines(firstLine === undefined ? lines : [firstLine(entries), ...lines]);
  }
}

async function describeLong(item: Item, name: string): Promise<ListedEntry> {
  const known = await reporting(item, async () => {
    const node = await item.load();
    const target = node.kind === 'symlink' ? await node.target() : undefined;
    return { attributes: await node.attributes(), target };
  });
  return { name, kind: item.kind, attributes: known?.attributes, target: known?.target };
}

class JsonListing implements Listing {
  #separator = '[\n';

  async files(items: readonly Item[]): Promise<void> {
    await this.#write(items);
  }

  async directory(_item: Item, children: readonly Item[]): Promise<void> {
    await this.#write(children);
  }

  async end(): Promise<void> {
    await writeOut(this.#separator === '[\n' ? '[]\n' : '\n]\n');
  }

  async #write(items: readonly Item[]): Promise<void> {
    const entries = await inBatches(items, (item) =>
      reporting(item, async () => describeEntry(item.path, await item.load())),
    );
    for (const entry of entries) {
      if (entry === undefined) continue;
      await writeOut(this.#separator + JSON.stringify(entry));
      this.#separator = ',\n';
    }
  }
}

/** One write for many short lines. */
async function writeLines(lines: readonly string[]): Promise<void> {
  if (lines.length > 0) await writeOut(`${lines.join('\n')}\n`);
}

async function inBatches<T, R>(items: readonly T[], action: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += entriesAtOnce) {
    results.push(...(await Promise.all(items.slice(at, at + entriesAtOnce).map(action))));
  }
  return results;
}
