// PBS's patterns for paths, as in `.pxarexclude` and `--pattern`. They are matched byte by byte against the path
// from the top of the archive.
//
//   /a     only at the top                **/   any number of directories    !a    takes back an earlier match
//   a/b    at the top or anywhere below   /**   everything below             a/    directories only
//
// A run of stars is `**` only as a whole component, elsewhere it is `*`. `*` and `?` stop at a slash, a class does
// not, and only `[^…]` negates.
// Source: `pathpatterns` crate; documentation of `.pxarexclude` in PBS.
import { PbsfsError } from '../errors.ts';
import {
  type GlobStep,
  isSpecial,
  matchSteps,
  type PatternUnit,
  readBrackets,
  readPatternBytes,
} from './glob.ts';

export interface PathPattern {
  /** Written with `!`: takes back what an earlier pattern matched. */
  readonly negated: boolean;
  readonly directoriesOnly: boolean;
  /** @param path from the top, with a leading slash. */
  matches(path: Uint8Array): boolean;
}

const slash = 0x2f;
const anyByte = (): boolean => true;
const noSlash = (byte: number): boolean => byte !== slash;

/** @throws PbsfsError `usage` */
export function parsePathPattern(text: string): PathPattern {
  try {
    return toPattern(readPatternBytes(text));
  } catch (error) {
    if (!(error instanceof PbsfsError)) throw error;
    throw new PbsfsError('usage', `pattern '${text}': ${error.message}`, { cause: error });
  }
}

function toPattern(given: PatternUnit[]): PathPattern {
  const negated = isSpecial(given[0], '!');
  const start = negated ? 1 : 0;
  const end = given.findLastIndex((unit) => !isSpecial(unit, '/')) + 1;
  const units = given.slice(start, Math.max(end, start));
  const steps = toSteps(units);
  const isAnchored = isSpecial(units[0], '/');
  return {
    negated,
    directoriesOnly: end < given.length,
    matches: (path) =>
      units.length > 0 && (matchSteps(steps, path) || (!isAnchored && matchesSuffix(steps, path))),
  };
}

function matchesSuffix(steps: readonly GlobStep[], path: Uint8Array): boolean {
  for (let at = path.indexOf(slash); at !== -1; at = path.indexOf(slash, at + 1)) {
    if (matchSteps(steps, path, at + 1)) return true;
  }
  return false;
}

function toSteps(units: readonly PatternUnit[]): GlobStep[] {
  const steps: GlobStep[] = [];
  for (let at = 0; at < units.length; ) {
    const piece = readPiece(units, at);
    steps.push(...piece.steps);
    at = piece.next;
  }
  return steps;
}

function readPiece(
  units: readonly PatternUnit[],
  at: number,
): { readonly steps: readonly GlobStep[]; readonly next: number } {
  if (isSpecial(units[at], '*')) return readStars(units, at);
  if (isSpecial(units[at], '?')) return { steps: [once(noSlash)], next: at + 1 };
  const brackets = isSpecial(units[at], '[') && readBrackets(units, at, { fnmatch: false });
  if (brackets) return { steps: [once(brackets.test)], next: brackets.next };
  const unit = units[at]?.unit;
  return { steps: [once((byte) => byte === unit)], next: at + 1 };
}

function once(test: (byte: number) => boolean): GlobStep {
  return { test, repeats: false };
}

function readStars(
  units: readonly PatternUnit[],
  start: number,
): { readonly steps: readonly GlobStep[]; readonly next: number } {
  let end = start;
  while (isSpecial(units[end], '*')) end++;
  const isEnd = end === units.length;
  const startsComponent = start === 0 || units[start - 1]?.unit === slash;
  const endsComponent = isEnd || units[end]?.unit === slash;
  if (end - start < 2 || !startsComponent || !endsComponent) {
    return { steps: [{ test: noSlash, repeats: true }], next: end };
  }
  const many = { test: anyByte, repeats: true };
  return isEnd
    ? { steps: [once(anyByte), many], next: end }
    : { steps: [{ skip: 3 }, many, once((byte) => byte === slash)], next: end + 1 };
}

/**
 * What the patterns say of a path, the last one that matches winning: undefined where none does.
 * @param path from the top, with a leading slash.
 */
export function matchPathPatterns(
  patterns: readonly PathPattern[],
  path: Uint8Array,
  isDirectory: boolean,
): 'matched' | 'taken-back' | undefined {
  const last = patterns.findLast(
    (pattern) => (isDirectory || !pattern.directoriesOnly) && pattern.matches(path),
  );
  if (last === undefined) return undefined;
  return last.negated ? 'taken-back' : 'matched';
}
