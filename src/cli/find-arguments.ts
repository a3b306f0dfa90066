/** Values of the options of `find`: kinds, sizes and times. */
import { InvalidArgumentError } from 'commander';
import type { Node } from '../tree/node.ts';

/** The letters of find(1). */
const kindsByLetter: Readonly<Record<string, Node['kind']>> = {
  f: 'file',
  d: 'directory',
  l: 'symlink',
  b: 'block',
  c: 'char',
  p: 'fifo',
  s: 'socket',
};

/** `f`, or several as `f,l`. */
export function parseKinds(text: string): ReadonlySet<Node['kind']> {
  return new Set(
    text.split(',').map((letter) => {
      const kind = Object.hasOwn(kindsByLetter, letter) ? kindsByLetter[letter] : undefined;
      if (kind === undefined) {
        throw new InvalidArgumentError(`It is one or more of ${Object.keys(kindsByLetter)}.`);
      }
      return kind;
    }),
  );
}

const unitBytes: Readonly<Record<string, number>> = {
  '': 1,
  c: 1,
  k: 2 ** 10,
  M: 2 ** 20,
  G: 2 ** 30,
  T: 2 ** 40,
};

/** `+10M` for more, `-10M` for less, `10M` for exactly that many bytes. */
export function parseSizeTest(text: string): (bytes: number) => boolean {
  const [, sign, digits, unit = ''] = /^([+-]?)(\d{1,15})([ckMGT]?)$/.exec(text) ?? [];
  if (digits === undefined) {
    throw new InvalidArgumentError('It is +N, -N or N with c, k, M, G or T behind, such as +10M.');
  }
  const limit = Number(digits) * (unitBytes[unit] ?? 1);
  if (sign === '+') return (bytes) => bytes > limit;
  return sign === '-' ? (bytes) => bytes < limit : (bytes) => bytes === limit;
}

const secondsPerUnit: Readonly<Record<string, number>> = {
  s: 1,
  m: 60,
  h: 3600,
  d: 86_400,
  w: 604_800,
};
const calendar = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d:\d\d)?$/;

/** Seconds since the epoch: a date, `@N`, or how long ago, such as `7d`. */
export function parseTime(text: string): number {
  const [, epoch] = /^@(-?\d{1,12})$/.exec(text) ?? [];
  if (epoch !== undefined) return Number(epoch);
  const [, count, unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  if (count !== undefined) return Date.now() / 1000 - Number(count) * (secondsPerUnit[unit] ?? 1);
  const date = calendar.test(text) ? new Date(toDateTime(text)).getTime() : Number.NaN;
  if (Number.isNaN(date)) {
    throw new InvalidArgumentError(
      'It is a time such as 2023-11-14, 2023-11-14T22:13:20Z or @1700000000, or an age such as 7d.',
    );
  }
  return date / 1000;
}

/** Without a zone it is local time: what JavaScript takes a date alone for is UTC. */
function toDateTime(text: string): string {
  const withT = text.replace(' ', 'T');
  return /^\d{4}-\d\d-\d\d$/.test(withT) ? `${withT}T00:00` : withT;
}
