/**
 * What of a walk is to be transferred, and where to: `--pattern` and `--strip-components`. A directory that no
 * pattern matches comes along, just before the first thing below it that is selected.
 */

import type { Node } from '../tree/node.ts';
import { matchPathPatterns, type PathPattern } from './path-pattern.ts';
import type { WalkEntry } from './walk.ts';

export interface Selection {
  /** Without any, or where the first one is negated, they start from everything, else from nothing. */
  readonly patterns: readonly PathPattern[];
  /** Leading names taken off each path; what has no more than that many is left out. */
  readonly stripComponents: number;
}

export interface SelectedEntry extends WalkEntry {
  /** Where it goes, below the target; none for the target itself. */
  readonly target: readonly Buffer[];
}

/** A directory on the way to the current entry. */
interface Ancestor {
  readonly entry: SelectedEntry;
  readonly isStripped: boolean;
  readonly isSelected: boolean;
  isGiven: boolean;
}

/** Gives what is selected of `walk`, in its order. */
export async function* selectEntries(
  walk: AsyncIterable<WalkEntry>,
  { patterns, stripComponents }: Selection,
): AsyncGenerator<SelectedEntry, void, undefined> {
  const ancestors: Ancestor[] = [];
  // A list that starts with an exclusion takes all the rest.
  const byDefault = patterns[0]?.negated ?? true;
  for await (const { path, node } of walk) {
    ancestors.length = Math.min(ancestors.length, path.length);
    const said = matchEntry(patterns, path, node);
    const isSelected =
      said === undefined ? (ancestors.at(-1)?.isSelected ?? byDefault) : said === 'matched';
    const isStripped = stripComponents > 0 && path.length <= stripComponents;
    const target = stripComponents === 0 ? path : path.slice(stripComponents);
    const entry = { path, node, target };
    const ancestor = { entry, isStripped, isSelected, isGiven: isSelected && !isStripped };
    if (ancestor.isGiven) {
      yield* giveAncestors(ancestors);
      yield entry;
    }
    if (node.kind === 'directory') ancestors.push(ancestor);
  }
}

function matchEntry(
  patterns: readonly PathPattern[],
  path: readonly Buffer[],
  node: Node,
): 'matched' | 'taken-back' | undefined {
  if (patterns.length === 0 || path.length === 0) return undefined;
  return matchPathPatterns(patterns, joinPath(path), node.kind === 'directory');
}

/** Above one that is given, all are. */
function* giveAncestors(ancestors: readonly Ancestor[]): Generator<SelectedEntry> {
  const last = ancestors.findLastIndex(({ isGiven, isStripped }) => isGiven || isStripped);
  for (const ancestor of ancestors.slice(last + 1)) {
    ancestor.isGiven = true;
    yield ancestor.entry;
  }
}

/** With a leading slash, as patterns want it. */
function joinPath(path: readonly Buffer[]): Buffer {
  return Buffer.concat(path.flatMap((name) => [slash, name]));
}

const slash = Buffer.from('/');
