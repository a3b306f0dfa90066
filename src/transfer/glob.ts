/**
 * Shell patterns, matched in time proportional to pattern × text whatever the pattern: all ways through the
 * pattern are followed at once. A text is a list of units: characters for names, bytes for paths.
 *
 *   *      any units, but no slash in a path    [abc] [a-z] [[:digit:]]   one of them
 *   ?      one unit                             [^abc]                    any other
 *   \c     c itself                             \xNN                      the byte NN (two hex digits)
 */
import { PbsfsError } from '../errors.ts';

/** One step of a pattern: consumes a unit that passes `test`, any number of them where it `repeats`. */
export type GlobStep =
  | { readonly test: (unit: number) => boolean; readonly repeats: boolean }
  /** Goes on with the next step, or with the one that many steps further on. */
  | { readonly skip: number };

/** Does all of `units` from `start` on fit the steps? */
export function matchSteps(
  steps: readonly GlobStep[],
  units: ArrayLike<number>,
  start = 0,
): boolean {
  let current = new Set<number>();
  enter(steps, current, 0);
  for (let at = start; at < units.length; at++) {
    const unit = units[at] ?? 0;
    const next = new Set<number>();
    for (const index of current) {
      const step = steps[index];
      if (step === undefined || 'skip' in step || !step.test(unit)) continue;
      enter(steps, next, step.repeats ? index : index + 1);
    }
    if (next.size === 0) return false;
    current = next;
  }
  return current.has(steps.length);
}

/** Adds a place in the pattern, and those that it leads to without consuming anything. */
function enter(steps: readonly GlobStep[], places: Set<number>, index: number): void {
  for (let at = index; !places.has(at); at++) {
    places.add(at);
    const step = steps[at];
    if (step === undefined) return;
    if ('skip' in step) enter(steps, places, at + step.skip);
    else if (!step.repeats) return;
  }
}

/** A unit of a pattern. A quoted one, that was written with a backslash, means nothing but itself. */
export interface PatternUnit {
  readonly unit: number;
  readonly quoted: boolean;
}

/**
 * The bytes of a pattern, its backslashes resolved.
 * @throws PbsfsError `usage` where it ends in a backslash.
 */
export function readPatternBytes(pattern: string): PatternUnit[] {
  const units: PatternUnit[] = [];
  for (const part of pattern.match(/\\x[0-9A-Fa-f]{2}|\\.|\\$|[^\\]+/gsu) ?? []) {
    if (part === '\\') {
      throw new PbsfsError('usage', `pattern '${pattern}' ends in a backslash`, {
        hint: 'write \\\\ for a backslash',
      });
    }
    const quoted = part.startsWith('\\');
    const isByte = part.length === 4 && quoted;
    const bytes = isByte
      ? Buffer.from(part.slice(2), 'hex')
      : Buffer.from(quoted ? part.slice(1) : part);
    for (const unit of bytes) units.push({ unit, quoted });
  }
  return units;
}

/** Where two kinds of patterns differ. */
export interface Dialect {
  /**
   * True as for fnmatch(3): `[!…]` negates too, `]` right behind `[` is a member, a reversed range is empty, and
   * a `[` that is not closed stands for itself. Otherwise as PBS has it.
   */
  readonly fnmatch: boolean;
}

/** Is it this character, and not quoted? */
export function isSpecial(unit: PatternUnit | undefined, character: string): boolean {
  return unit !== undefined && !unit.quoted && unit.unit === character.charCodeAt(0);
}

export interface Brackets {
  readonly test: (unit: number) => boolean;
  /** Behind the closing one. */
  readonly next: number;
}

/**
 * The bracket expression that opens at `at`; undefined where it is not closed and stands for itself.
 * @throws PbsfsError `usage`
 */
export function readBrackets(
  units: readonly PatternUnit[],
  at: number,
  dialect: Dialect,
): Brackets | undefined {
  const isNegated =
    isSpecial(units[at + 1], '^') || (dialect.fnmatch && isSpecial(units[at + 1], '!'));
  const members = readMembers(units, at + (isNegated ? 2 : 1), dialect);
  if (members === undefined) {
    if (dialect.fnmatch) return undefined;
    throw new PbsfsError('usage', "a '[' in a pattern is not closed");
  }
  const { ranges, next } = members;
  const test = (unit: number): boolean =>
    ranges.some(([first, last]) => unit >= first && unit <= last) !== isNegated;
  return { test, next };
}

type Range = readonly [first: number, last: number];

function readMembers(
  units: readonly PatternUnit[],
  start: number,
  { fnmatch }: Dialect,
): { ranges: readonly Range[]; next: number } | undefined {
  const ranges: Range[] = [];
  for (let at = start; at < units.length; ) {
    if (isSpecial(units[at], ']') && (!fnmatch || at > start)) return { ranges, next: at + 1 };
    const member = readNamedClass(units, at) ?? readRange(units, at, fnmatch);
    ranges.push(...member.ranges);
    at = member.next;
  }
  return undefined;
}

interface Member {
  readonly ranges: readonly Range[];
  readonly next: number;
}

/** `a-z`, or `a` alone. */
function readRange(units: readonly PatternUnit[], at: number, fnmatch: boolean): Member {
  const first = units[at]?.unit ?? 0;
  const last = units[at + 2];
  if (!isSpecial(units[at + 1], '-') || last === undefined) {
    return { ranges: [[first, first]], next: at + 1 };
  }
  if (!isSpecial(last, ']')) {
    const isReversed = first > last.unit && !fnmatch;
    return { ranges: [isReversed ? [last.unit, first] : [first, last.unit]], next: at + 3 };
  }
  if (!fnmatch) {
    throw new PbsfsError('usage', "a range in a pattern ends in '-]'", {
      hint: "put the '-' first",
    });
  }
  return { ranges: [[first, first]], next: at + 1 };
}

/** POSIX' classes, ASCII only. */
const namedClasses: Readonly<Record<string, RegExp>> = {
  alpha: /[A-Za-z]/,
  digit: /[0-9]/,
  upper: /[A-Z]/,
  lower: /[a-z]/,
  alnum: /[A-Za-z0-9]/,
  space: /[\t-\r ]/,
  blank: /[\t ]/,
  punct: /[!-/:-@[-`{-~]/,
  xdigit: /[0-9A-Fa-f]/,
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is the class
  cntrl: /[\x00-\x1f\x7f]/,
  graph: /[!-~]/,
  print: /[ -~]/,
};
const asciiCount = 128;

function readNamedClass(units: readonly PatternUnit[], at: number): Member | undefined {
  if (!isSpecial(units[at], '[') || !isSpecial(units[at + 1], ':')) return undefined;
  const end = units.findIndex(
    (unit, index) => index > at + 1 && isSpecial(unit, ':') && isSpecial(units[index + 1], ']'),
  );
  if (end === -1) return undefined;
  const name = String.fromCodePoint(
    ...units.slice(at + 2, end).map(({ unit }) => Math.max(unit, 0)),
  );
  const expression = Object.hasOwn(namedClasses, name) ? namedClasses[name] : undefined;
  if (expression === undefined)
    throw new PbsfsError('usage', `a pattern has the unknown class [:${name}:]`);
  const ascii = Array.from({ length: asciiCount }, (_, unit) => unit);
  const members = ascii.filter((unit) => expression.test(String.fromCharCode(unit)));
  return { ranges: members.map((unit) => [unit, unit] as const), next: end + 2 };
}
