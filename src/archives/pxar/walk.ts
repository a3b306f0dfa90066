/**
 * One pass over a directory and all below it in the order of the archive, reading forward only: the way to
 * read everything, for each chunk is met once. Goodbye tables are not needed, so broken ones do no harm.
 *
 * What cannot be decoded is one step, `damaged`; how to go on behind it is up to a `Resume`.
 */
import { PbsfsError } from '../../errors.ts';
import type { PxarDirectory, PxarEntry, PxarLeaf } from '../../formats/pxar/entry.ts';
import { damageOf, type PxarDamage, unusableName } from './damage.ts';
import { readEntry, readHead, readHeader } from './read-entry.ts';
import type { Window } from './window.ts';

export type PxarStep =
  /** A directory, before its members; its `end` is not known yet. */
  | { readonly step: 'enter'; readonly directory: PxarDirectory }
  /** The same directory behind its last member, with its `end` unless damage hides it. */
  | { readonly step: 'leave'; readonly directory: PxarDirectory }
  | { readonly step: 'leaf'; readonly entry: PxarLeaf }
  | { readonly step: 'damaged'; readonly directory: PxarDirectory; readonly damage: PxarDamage };

/** Where a pass can go on. */
export interface ResumePoint {
  /** Directories of the stack that stay open, 1 or more. */
  readonly depth: number;
  /** A FILENAME or GOODBYE item. */
  readonly position: number;
}

/**
 * Finds what follows the damage at `position`; undefined gives up.
 * @param stack the open directories, outermost first.
 */
export type Resume = (
  stack: readonly PxarDirectory[],
  position: number,
) => Promise<ResumePoint | undefined>;

/** A path of single-letter names as long as `PATH_MAX` is 2,048 deep. */
const maxDepth = 65_536;

type Item =
  | { readonly kind: 'entry'; readonly entry: PxarEntry; readonly next: number }
  | { readonly kind: 'end'; readonly end: number }
  | { readonly kind: 'damage'; readonly damage: PxarDamage };

/** The member at `position`, or the end of the directory where its goodbye table is. */
async function readItem(
  window: Window,
  position: number,
  limit: number,
  parent: PxarDirectory,
): Promise<Item> {
  let name: Buffer | undefined;
  try {
    const head = await readHead(window, position, limit, parent);
    name = head?.name;
    if (head !== undefined) return { kind: 'entry', ...(await readEntry(window, head, limit)) };
    const header = await readHeader(window, position, limit);
    if (header?.name === 'GOODBYE') return { kind: 'end', end: position + header.size };
    throw new PbsfsError('corrupt', `${header?.name ?? 'nothing'} where a member should start`);
  } catch (error) {
    return { kind: 'damage', damage: damageOf(error, position, parent, name) };
  }
}

interface OpenDirectory {
  readonly directory: PxarDirectory;
  /** It, or one above it, has an unusable name. */
  readonly isHidden: boolean;
}

function* enterOrPass(stack: OpenDirectory[], entry: PxarEntry): Generator<PxarStep> {
  const parent = stack.at(-1);
  const unusable = unusableName(entry);
  const isHidden = parent?.isHidden === true || unusable !== undefined;
  if (unusable !== undefined && parent?.isHidden === false) {
    yield { step: 'damaged', directory: parent.directory, damage: unusable };
  }
  if (entry.kind !== 'directory') {
    if (!isHidden) yield { step: 'leaf', entry };
    return;
  }
  if (stack.length === maxDepth) {
    throw new PbsfsError('corrupt', `directories are nested more than ${maxDepth} deep`);
  }
  stack.push({ directory: entry, isHidden });
  if (!isHidden) yield { step: 'enter', directory: entry };
}

/** Leaves directories until `depth` of them are open. */
function* leaveTo(stack: OpenDirectory[], depth: number, end?: number): Generator<PxarStep> {
  while (stack.length > depth) {
    const left = stack.pop();
    if (left === undefined || left.isHidden) continue;
    const { directory } = left;
    yield { step: 'leave', directory: end === undefined ? directory : directory.endingAt(end) };
  }
}

/**
 * Walks `start`, from its `enter` to its `leave`.
 * @param limit where the stream, or the part of it to look at, ends.
 * @throws PbsfsError `unreachable`, `aborted`, …: all but damage.
 */
export async function* walkItems(
  window: Window,
  start: PxarDirectory,
  limit: number,
  resume: Resume,
): AsyncGenerator<PxarStep, void, undefined> {
  const stack: OpenDirectory[] = [{ directory: start, isHidden: false }];
  yield { step: 'enter', directory: start };
  let position = start.membersStart;
  for (let open = stack.at(-1); open !== undefined; open = stack.at(-1)) {
    const item = await readItem(window, position, limit, open.directory);
    switch (item.kind) {
      case 'entry':
        position = item.next;
        yield* enterOrPass(stack, item.entry);
        break;
      case 'end':
        position = item.end;
        yield* leaveTo(stack, stack.length - 1, item.end);
        break;
      case 'damage': {
        yield { step: 'damaged', directory: open.directory, damage: item.damage };
        const point = await resume(
          stack.map(({ directory }) => directory),
          position,
        );
        position = point?.position ?? limit;
        yield* leaveTo(stack, point?.depth ?? 0);
        break;
      }
    }
  }
}
