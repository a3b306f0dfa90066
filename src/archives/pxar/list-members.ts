/**
 * Reads the members that a goodbye table points at: headers only. Those that lie close together are read in
 * one go; behind a large file's content (format v1) each takes a small read of its own, several at a time,
 * since they lie in different chunks.
 */
import type { PxarDirectory, PxarEntry } from '../../formats/pxar/entry.ts';
import type { GoodbyeTable } from '../../formats/pxar/goodbye.ts';
import type { ReadAt } from '../../read-at.ts';
import { damageOf, isDamage, type PxarDamage, unusableName } from './damage.ts';
import { type PxarListing, withoutDuplicates } from './read-directory.ts';
import { readEntry, readHead } from './read-entry.ts';
import { Window } from './window.ts';

/** A jump over less than this costs more than reading on. */
const maxGap = 4096;
const maxRun = 256 * 1024;
/** What the last member of a run is likely to need. */
const tailOfRun = 512;
/** Runs read at once: each may wait for a chunk of its own. */
const parallelRuns = 8;

/** Members `[first, next)` by position, and the range to read for them. */
interface Run {
  readonly first: number;
  readonly next: number;
  readonly start: number;
  readonly length: number;
}

function* planRuns({ positions, position: tablePosition }: GoodbyeTable): Generator<Run> {
  const at = (i: number): number => positions[i] ?? tablePosition;
  for (let first = 0; first < positions.length; ) {
    const start = at(first);
    let next = first + 1;
    while (
      next < positions.length &&
      at(next) - at(next - 1) <= maxGap &&
      at(next) - start < maxRun
    )
      next++;
    const end = Math.min(at(next - 1) + tailOfRun, tablePosition);
    yield { first, next, start, length: end - start };
    first = next;
  }
}

/**
 * All members of `directory` in the order of the archive, or undefined where the table points at something
 * that is no member.
 * @throws PbsfsError `unreachable`, `aborted`, …; damage is part of the listing.
 */
export async function listMembers(
  source: ReadAt,
  directory: PxarDirectory,
  table: GoodbyeTable,
  signal?: AbortSignal,
): Promise<PxarListing | undefined> {
  const found = new Array<PxarEntry | PxarDamage | undefined>(table.length);
  const runs = planRuns(table);
  const work = async (): Promise<void> => {
    for (const run of runs) {
      const window = new Window(source, signal);
      await preload(window, run);
      for (let i = run.first; i < run.next; i++) {
        const position = table.positions[i] ?? table.position;
        found[i] = await readMember(window, directory, position, table.memberEnd(position));
        if (found[i] === undefined) return void runs.return(undefined);
      }
    }
  };
  // They draw from one generator: to close it, as the first failure does too, stops them all.
  await Promise.all(Array.from({ length: parallelRuns }, work));
  return toListing(found);
}

/** A damaged chunk in a run is met again by the members that need it. */
async function preload(window: Window, { start, length }: Run): Promise<void> {
  try {
    await window.load(start, length);
  } catch (error) {
    if (!isDamage(error)) throw error;
  }
}

/** The member at `position`, or why it cannot be shown; undefined where no member starts there. */
async function readMember(
  window: Window,
  parent: PxarDirectory,
  position: number,
  end: number,
): Promise<PxarEntry | PxarDamage | undefined> {
  let name: Buffer | undefined;
  try {
    const head = await readHead(window, position, end, parent);
    if (head === undefined) return undefined;
    name = head.name;
    const { entry } = await readEntry(window, head, end, end);
    return unusableName(entry) ?? entry;
  } catch (error) {
    return damageOf(error, position, parent, name);
  }
}

function toListing(
  found: readonly (PxarEntry | PxarDamage | undefined)[],
): PxarListing | undefined {
  const members: PxarEntry[] = [];
  const damaged: PxarDamage[] = [];
  for (const one of found) {
    if (one === undefined) return undefined;
    if ('error' in one) damaged.push(one);
    else members.push(one);
  }
  return withoutDuplicates({ members, damaged });
}
