/**
 * Names of snapshot directories. PBS's own form is the default; another one can be asked for with a pattern
 * of `%Y %m %d %H %M %S` (UTC) and plain text, for programs that cannot bear a colon. Each second must have
 * a name of its own, so all six fields are needed.
 */
import { PbsfsError } from '../errors.ts';
import { formatBackupTime, parseBackupTime } from '../formats/snapshot-path.ts';

export interface TimeFormat {
  format(time: number): string;
  /** Seconds since the epoch, or undefined where `name` is not of this form. */
  parse(name: string): number | undefined;
}

/** `2023-11-14T22:13:20Z` */
export const backupTimeFormat: TimeFormat = { format: formatBackupTime, parse: parseBackupTime };

/** Field letter → its place in `2023-11-14T22:13:20Z`. */
const fields: Readonly<Record<string, readonly [start: number, end: number]>> = {
  Y: [0, 4],
  m: [5, 7],
  d: [8, 10],
  H: [11, 13],
  M: [14, 16],
  S: [17, 19],
};
const fieldOrder = ['Y', 'm', 'd', 'H', 'M', 'S'] as const;
/** NAME_MAX of Linux. */
const maxNameBytes = 255;

/** @throws PbsfsError `usage` */
export function parseTimeFormat(pattern: string): TimeFormat {
  const parts = pattern.match(/%.?|[^%]+/gs) ?? [];
  const letters = parts.filter((part) => part.startsWith('%') && part !== '%%');
  for (const part of letters) {
    if (fields[part.slice(1)] === undefined) {
      throw invalid(
        pattern,
        `'${part}' is not a field`,
        'use %Y %m %d %H %M %S, and %% for a percent sign',
      );
    }
  }
  const missing = fieldOrder.filter((letter) => !letters.includes(`%${letter}`));
  if (missing.length > 0) {
    const names = missing.map((letter) => `%${letter}`).join(' ');
    throw invalid(pattern, `${names} is missing`, 'two snapshots could get the same name');
  }
  if (/[/\0]/.test(pattern)) throw invalid(pattern, 'a name cannot hold a slash or NUL');
  const format = (time: number): string => {
    const iso = formatBackupTime(time);
    return parts.map((part) => formatPart(part, iso)).join('');
  };
  const length = Buffer.byteLength(format(0));
  if (length > maxNameBytes) throw invalid(pattern, `names of ${length} bytes are too long`);
  return { format, parse: createParser(parts, format) };
}

function formatPart(part: string, iso: string): string {
  if (part === '%%') return '%';
  const field = part.startsWith('%') ? fields[part.slice(1)] : undefined;
  return field === undefined ? part : iso.slice(field[0], field[1]);
}

function createParser(
  parts: readonly string[],
  format: (time: number) => string,
): (name: string) => number | undefined {
  const letters: string[] = [];
  const source = parts.map((part) => {
    if (part === '%%') return '%';
    if (!part.startsWith('%')) return part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
    letters.push(part.slice(1));
    return part === '%Y' ? '(\\d{4})' : '(\\d\\d)';
  });
  const expression = new RegExp(`^${source.join('')}$`);
  return (name) => {
    const match = expression.exec(name);
    if (match === null) return undefined;
    const value = (letter: string): string => match[letters.indexOf(letter) + 1] ?? '';
    const [Y, m, d, H, M, S] = fieldOrder.map(value);
    const time = parseBackupTime(`${Y}-${m}-${d}T${H}:${M}:${S}Z`);
    return time !== undefined && format(time) === name ? time : undefined;
  };
}

function invalid(pattern: string, why: string, hint?: string): PbsfsError {
  return new PbsfsError(
    'usage',
    `time format '${pattern}': ${why}`,
    hint === undefined ? {} : { hint },
  );
}
