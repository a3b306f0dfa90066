/**
 * Patterns for one name, as find(1) and fnmatch(3) have them: `[!…]` negates too, a leading dot is nothing
 * special, and `?` is one UTF-8 character or one byte that is part of none.
 */
import {
  type GlobStep,
  isSpecial,
  matchSteps,
  type PatternUnit,
  readBrackets,
  readPatternBytes,
} from './glob.ts';

/** Says whether a name fits. */
export type NameGlob = (name: Uint8Array) => boolean;

const anyUnit = (): boolean => true;

/** @throws PbsfsError `usage` for a trailing backslash or an unknown `[:class:]`. */
export function parseNameGlob(pattern: string): NameGlob {
  const units = joinCharacters(readPatternBytes(pattern));
  const steps: GlobStep[] = [];
  for (let at = 0; at < units.length; ) {
    const { unit } = units[at] ?? { unit: 0 };
    const brackets = isSpecial(units[at], '[')
      ? readBrackets(units, at, { fnmatch: true })
      : undefined;
    if (brackets !== undefined) steps.push({ test: brackets.test, repeats: false });
    else if (isSpecial(units[at], '*')) steps.push({ test: anyUnit, repeats: true });
    else if (isSpecial(units[at], '?')) steps.push({ test: anyUnit, repeats: false });
    else steps.push({ test: (other) => other === unit, repeats: false });
    at = brackets?.next ?? at + 1;
  }
  return (name) => matchSteps(steps, unitsOfName(name));
}

/** The characters as code points; a byte that is part of none is negative, so that it equals no character. */
function unitsOfName(name: Uint8Array): ArrayLike<number> {
  if (name.every((byte) => byte < 0x80)) return name;
  return joinCharacters(Array.from(name, (unit) => ({ unit, quoted: false }))).map(
    ({ unit }) => unit,
  );
}

function joinCharacters(bytes: readonly PatternUnit[]): PatternUnit[] {
  const units: PatternUnit[] = [];
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at] ?? { unit: 0, quoted: false };
    const length = sequenceLength(first.unit);
    const character = decodeCharacter(bytes.slice(at, at + length));
    units.push({ unit: character ?? first.unit - 256, quoted: first.quoted });
    at += character === undefined ? 1 : length;
  }
  return units;
}

/** Length of the UTF-8 sequence that starts with `byte`, 1 where none does. */
function sequenceLength(byte: number): number {
  if (byte >= 0xf0) return 4;
  if (byte >= 0xe0) return 3;
  return byte >= 0xc0 ? 2 : 1;
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decodeCharacter(bytes: readonly PatternUnit[]): number | undefined {
  try {
    const text = strictUtf8.decode(Uint8Array.from(bytes, ({ unit }) => unit));
    return text.codePointAt(0);
  } catch {
    return undefined;
  }
}
