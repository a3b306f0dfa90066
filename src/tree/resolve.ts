/**
 * From a path of the command line to a node. It is the path in the mount, with some forgiveness: archive names
 * with or without `.fidx`, `.didx` and `.blob`, the halves of a split archive for the whole, times in PBS's
 * form or in the tree's own, and a group alone for its newest snapshot where that is wanted, also with the
 * name of an archive behind it (`vm/100/drive-scsi0.img`).
 */
import { PbsfsError } from '../errors.ts';
import { displayName, isArchiveName } from '../formats/archive-name.ts';
import type { BackupTree } from './backup-tree.ts';
import { GroupDirectory, latestName } from './group-directory.ts';
import type { Node } from './node.ts';
import { SnapshotDirectory } from './snapshot-directory.ts';
import { formatTreePath } from './tree-path.ts';

export interface ResolveOptions {
  /** What a group alone stands for: itself, or its newest finished snapshot. */
  readonly group?: 'itself' | 'newest';
  readonly signal?: AbortSignal;
}

export interface Resolved {
  readonly node: Node;
  /** The names in the tree, which may differ from those asked for. */
  readonly path: readonly Buffer[];
}

/** Links followed before a path counts as a loop: the kernel's own limit. */
const maxLinks = 40;

/**
 * @param path as `parseTreePath` gives it.
 * @throws PbsfsError `not-found`, `not-directory`, and whatever listing throws.
 */
export async function resolvePath(
  tree: BackupTree,
  path: readonly Buffer[],
  options: ResolveOptions = {},
): Promise<Resolved> {
  const { signal } = options;
  const names: Buffer[] = [];
  const nodes: Node[] = [tree.root];
  const waiting = [...path];
  let links = 0;
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
    const parent = nodes.at(-1) ?? tree.root;
    if (options.group === 'newest' && isInNewest(tree, parent, name)) {
      waiting.unshift(Buffer.from(latestName), name);
      continue;
    }
    const step = await lookupForgiving(tree, parent, name, names, signal);
    const isLink =
      step.node.kind === 'symlink' && (waiting.length > 0 || parent instanceof GroupDirectory);
    if (!isLink || step.node.kind !== 'symlink') {
      names.push(step.name);
      nodes.push(step.node);
      continue;
    }
    links += 1;
    if (links > maxLinks) throw notFound(names, name, 'too many links');
    waiting.unshift(...splitTarget(await step.node.target(signal), names, name));
  }
  const node = nodes.at(-1) ?? tree.root;
  if (options.group === 'newest' && node instanceof GroupDirectory) {
    return await newestOf(tree, node, names, signal);
  }
  return { node, path: names };
}

/** A name below a group that is not that of a snapshot: an archive of the newest one. */
function isInNewest(tree: BackupTree, parent: Node, name: Buffer): boolean {
  const text = name.toString();
  return (
    parent instanceof GroupDirectory && text !== latestName && tree.parseTime(text) === undefined
  );
}

/** Only links within the tree are followed: an absolute or climbing target leads out of it. */
function splitTarget(target: Buffer, names: readonly Buffer[], link: Buffer): Buffer[] {
  const text = target.toString('latin1');
  const parts = text.split('/').filter((part) => part !== '' && part !== '.');
  if (text.startsWith('/') || parts.includes('..')) {
    throw notFound(names, link, 'is a link out of its directory, which is not followed');
  }
  return parts.map((part) => Buffer.from(part, 'latin1'));
}

async function newestOf(
  tree: BackupTree,
  group: GroupDirectory,
  names: readonly Buffer[],
  signal?: AbortSignal,
): Promise<Resolved> {
  const newest = await group.newest(signal);
  if (newest === undefined) {
    throw new PbsfsError('not-found', 'group has no finished snapshot', {
      context: { path: formatTreePath(names) },
    });
  }
  const name = Buffer.from(tree.timeFormat.format(newest.snapshot.time));
  return { node: newest, path: [...names, name] };
}

interface Step {
  readonly name: Buffer;
  readonly node: Node;
}

async function lookupForgiving(
  tree: BackupTree,
  parent: Node,
  name: Buffer,
  names: readonly Buffer[],
  signal?: AbortSignal,
): Promise<Step> {
  if (parent.kind !== 'directory') {
    throw new PbsfsError('not-directory', 'is not a directory', {
      context: { path: formatTreePath(names) },
    });
  }
  for (const candidate of [name, ...otherForms(tree, parent, name)]) {
    const node = await parent.lookup(candidate, signal);
    if (node !== undefined) return { name: candidate, node };
  }
  throw notFound(names, name, 'no such file or directory');
}

function otherForms(tree: BackupTree, parent: Node, name: Buffer): Buffer[] {
  const text = name.toString();
  if (parent instanceof GroupDirectory) {
    const time = tree.parseTime(text);
    return time === undefined ? [] : [Buffer.from(tree.timeFormat.format(time))];
  }
  if (!(parent instanceof SnapshotDirectory)) return [];
  const shown = isArchiveName(text) ? displayName(text) : text;
  const whole = shown.replace(/\.[mp]pxar$/, '.pxar');
  // Metadata whose payload is missing has no other name.
  const alone = shown.replace(/\.pxar$/, '.mpxar');
  return [...new Set([shown, whole, alone])]
    .filter((form) => form !== text)
    .map((form) => Buffer.from(form));
}

function notFound(names: readonly Buffer[], name: Buffer, why: string): PbsfsError {
  return new PbsfsError('not-found', why, {
    context: { path: formatTreePath([...names, name]) },
  });
}
