/**
 * Lines of `ls -l`, column by column as ls(1) in the C locale writes them, with two differences: owner and group are
 * numbers, since the names of this machine are not those of the backup, and names are escaped.
 */
import type { Attributes, Node, Time } from '../tree/node.ts';
import { formatTreeName } from '../tree/tree-path.ts';

/** One line to be; without attributes where they could not be read. */
export interface ListedEntry {
  readonly name: string;
  readonly kind: Node['kind'];
  readonly attributes: Attributes | undefined;
  /** Of a link. */
  readonly target: Buffer | undefined;
}

const typeLetters: Readonly<Record<Node['kind'], string>> = {
  directory: 'd',
  file: '-',
  symlink: 'l',
  block: 'b',
  char: 'c',
  fifo: 'p',
  socket: 's',
};

/** `drwxr-xr-x`, with s, S, t and T as chmod(1) has them. */
export function formatMode(kind: Node['kind'], mode: number): string {
  const special = [0o4000, 0o2000, 0o1000].map((bit) => (mode & bit) !== 0);
  const triples = [6, 3, 0].map((shift, index) => {
    const bits = (mode >> shift) & 7;
    const letter = index === 2 ? 't' : 's';
    const plain = (bits & 1) === 0 ? '-' : 'x';
    const marked = (bits & 1) === 0 ? letter.toUpperCase() : letter;
    return `${bits & 4 ? 'r' : '-'}${bits & 2 ? 'w' : '-'}${special[index] ? marked : plain}`;
  });
  return typeLetters[kind] + triples.join('');
}

const months = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
/** Half of an average Gregorian year: what ls(1) calls recent. */
const recentSeconds = 31_556_952 / 2;

/** `Nov 14 22:13` within the last six months, else `Nov 14  2023`; local time. */
export function formatListTime({ seconds }: Time, nowSeconds: number): string {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return String(seconds);
  const day = `${months[date.getMonth()]} ${String(date.getDate()).padStart(2)}`;
  const isRecent = seconds <= nowSeconds && seconds > nowSeconds - recentSeconds;
  const [hours, minutes] = [date.getHours(), date.getMinutes()].map((n) => `${n}`.padStart(2, '0'));
  return `${day} ${isRecent ? `${hours}:${minutes}` : String(date.getFullYear()).padStart(5)}`;
}

/** Lines with aligned columns: mode, links, owner, group, size or device, time, name. */
export function formatLongListing(
  entries: readonly ListedEntry[],
  nowSeconds: number,
): readonly string[] {
  const rows = entries.map((entry) => ({ entry, cells: longCells(entry, nowSeconds) }));
  const widths = [0, 1, 2, 3, 4, 5].map((column) =>
    rows.reduce((width, { cells }) => Math.max(width, cells[column]?.length ?? 0), 0),
  );
  return rows.map(({ entry, cells }) => {
    const [mode = '', links = '', uid = '', gid = '', size = '', time = ''] = cells.map(
      (cell, column) => {
        const width = widths[column] ?? 0;
        const alignLeft = column === 0 || column === 2 || column === 3;
        return alignLeft ? cell.padEnd(width) : cell.padStart(width);
      },
    );
    const target = entry.target === undefined ? '' : ` -> ${formatTreeName(entry.target)}`;
    return `${mode} ${links} ${uid} ${gid} ${size} ${time} ${entry.name}${target}`;
  });
}

function longCells({ kind, attributes }: ListedEntry, nowSeconds: number): string[] {
  if (attributes === undefined) return [`${typeLetters[kind]}?????????`, '?', '?', '?', '?', '?'];
  const { mode, nlink, uid, gid, size, rdev, mtime } = attributes;
  return [
    formatMode(kind, mode),
    String(nlink),
    String(uid),
    String(gid),
    rdev === undefined ? String(size) : `${rdev.major}, ${rdev.minor}`,
    formatListTime(mtime, nowSeconds),
  ];
}

/** `total N` of a directory: space of its entries in KiB. */
export function formatTotal(entries: readonly ListedEntry[]): string {
  const blocks = entries.reduce((sum, { attributes }) => sum + (attributes?.blocks ?? 0), 0);
  return `total ${Math.ceil(blocks / 2)}`;
}
