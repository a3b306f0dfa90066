/**
 * Writes tar archives as POSIX has them, which GNU tar and bsdtar read: a header of 512 bytes for each entry, numbers
 * in octal ASCII, and in front of it an extended header for what does not fit (`pax-records.ts`).
 *
 *     0 100  path          136 12  mtime        257  8  "ustar", NUL, "00"
 *   100   8  mode          148  8  checksum     265 64  names of owner and group: empty, the numbers count
 *   108   8  uid           156  1  type         329  8  device major
 *   116   8  gid           157 100 link target  337  8  device minor
 *   124  12  size
 *
 * Own code, since tar packages take names, link targets and the values of extended headers as text: what is not UTF-8
 * would be lost.
 * Source: POSIX `pax`, "ustar Interchange Format".
 */
import type { Attributes, Node } from '../tree/node.ts';
import { encodePaxRecords } from './pax-records.ts';
import type { TransferReport } from './report.ts';
import { GatheringSink, type Sink } from './sink.ts';
import type { StreamEntry, StreamFormat } from './stream-entry.ts';
import { joinPath } from './stream-path.ts';

const blockBytes = 512;
const maxPathBytes = 100;
const typeFlags: Readonly<Record<Exclude<Node['kind'], 'socket'>, string>> = {
  file: '0',
  symlink: '2',
  char: '3',
  block: '4',
  directory: '5',
  fifo: '6',
};
const hardLinkFlag = '1';
const extendedFlag = 'x';

export class TarFormat implements StreamFormat {
  readonly #sink: GatheringSink;
  readonly #report: TransferReport;

  constructor(sink: Sink, report: TransferReport) {
    this.#sink = new GatheringSink(sink);
    this.#report = report;
  }

  async add(entry: StreamEntry, linkTo: readonly Buffer[] | undefined): Promise<void> {
    if (entry.kind === 'socket') {
      this.#report.lose('sockets (tar has none)');
      return;
    }
    const { attributes, xattrs } = entry.metadata;
    const path = pathOf(entry);
    if (linkTo !== undefined) {
      const linkPath = joinPath(linkTo);
      await this.#start({ path, linkPath, flag: hardLinkFlag, size: 0, attributes, xattrs: [] });
      return;
    }
    const { destination: linkPath, size } = entry;
    const flag = typeFlags[entry.kind];
    await this.#start({ path, linkPath, flag, size, attributes, xattrs });
    for await (const bytes of entry.content()) await this.#sink.write(bytes);
    await this.#pad(size);
  }

  /** Two blocks of zeros. */
  async end(): Promise<void> {
    await this.#sink.write(Buffer.alloc(2 * blockBytes));
    await this.#sink.flush();
  }

  async #start(header: Header & Parameters<typeof encodePaxRecords>[0]): Promise<void> {
    const records = encodePaxRecords(header);
    if (records.length > 0) {
      await this.#sink.write(encodeHeader({ ...extendedHeader, size: records.length }));
      await this.#sink.write(records);
      await this.#pad(records.length);
    }
    await this.#sink.write(encodeHeader(header));
  }

  async #pad(length: number): Promise<void> {
    const rest = length % blockBytes;
    if (rest > 0) await this.#sink.write(Buffer.alloc(blockBytes - rest));
  }
}

/** A directory ends in a slash; the top is `./`. */
function pathOf({ path, kind }: StreamEntry): Buffer {
  if (kind !== 'directory') return joinPath(path);
  return Buffer.concat([path.length === 0 ? Buffer.from('.') : joinPath(path), Buffer.from('/')]);
}

interface Header {
  readonly path: Buffer;
  readonly linkPath: Buffer;
  readonly flag: string;
  readonly size: number;
  readonly attributes: Pick<Attributes, 'mode' | 'uid' | 'gid' | 'mtime' | 'rdev'>;
}

/** Who does not know of extended headers extracts them under this name. */
const extendedHeader: Omit<Header, 'size'> = {
  path: Buffer.from('PaxHeaders/entry'),
  linkPath: Buffer.alloc(0),
  flag: extendedFlag,
  attributes: { mode: 0o644, uid: 0, gid: 0, mtime: { seconds: 0, nanos: 0 } },
};

/** What does not fit is cut, or 0: a record in front says it. */
function encodeHeader({ path, linkPath, flag, size, attributes }: Header): Buffer {
  const { mode, uid, gid, mtime, rdev } = attributes;
  const header = Buffer.alloc(blockBytes);
  const writeOctal = (value: number, offset: number, digits: number): void => {
    const fits = value >= 0 && value < 8 ** digits;
    header.write((fits ? value : 0).toString(8).padStart(digits, '0'), offset, 'latin1');
  };
  path.copy(header, 0, 0, maxPathBytes);
  writeOctal(mode & 0o7777, 100, 7);
  writeOctal(uid, 108, 7);
  writeOctal(gid, 116, 7);
  writeOctal(size, 124, 11);
  writeOctal(mtime.seconds, 136, 11);
  header.write(flag, 156, 'latin1');
  linkPath.copy(header, 157, 0, maxPathBytes);
  header.write('ustar', 257, 'latin1');
  header.write('00', 263, 'latin1');
  writeOctal(rdev?.major ?? 0, 329, 7);
  writeOctal(rdev?.minor ?? 0, 337, 7);
  // The checksum counts its own field as spaces.
  header.fill(' ', 148, 156);
  let sum = 0;
  for (const byte of header) sum += byte;
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return header;
}
