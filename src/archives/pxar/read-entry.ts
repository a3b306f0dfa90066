/**
 * Reads one member of a directory: its FILENAME item, and what follows up to its content. Contents, link
 * targets and attributes are stepped over, whatever their size.
 */
import { PbsfsError } from '../../errors.ts';
import {
  type ByteRange,
  type EntryKind,
  type EntryPlace,
  kindOfMode,
  type PayloadPlace,
  PxarDevice,
  PxarDirectory,
  type PxarEntry,
  PxarFile,
  PxarHardLink,
  PxarIpc,
  PxarSymlink,
} from '../../formats/pxar/entry.ts';
import {
  decodeDevice,
  decodeFileName,
  decodeHardLink,
  decodePayloadRef,
} from '../../formats/pxar/entry-items.ts';
import {
  decodeItemHeader,
  type ItemHeader,
  type ItemName,
  isAttributeItem,
  itemHeaderSize,
  itemNameAt,
} from '../../formats/pxar/item.ts';
import { decodeStat, decodeStatV1, type PxarStat } from '../../formats/pxar/stat.ts';
import type { Window } from './window.ts';

/** What a FILENAME item says. */
export interface EntryHead extends EntryPlace {
  /** Where its ENTRY or HARDLINK item starts. */
  readonly bodyStart: number;
}

export interface ReadEntry {
  readonly entry: PxarEntry;
  /** Where the next item starts: behind the entry, or for a directory the first of its members. */
  readonly next: number;
}

/** A kernel lists 64 KiB of names of extended attributes at most; an ACL has few thousand entries. */
const maxAttributeItems = 16_384;

/** The header at `position`, or undefined at `limit`. @throws PbsfsError `corrupt` */
export async function readHeader(
  window: Window,
  position: number,
  limit: number,
): Promise<ItemHeader | undefined> {
  if (position === limit) return undefined;
  if (!window.has(position, itemHeaderSize)) await window.load(position, itemHeaderSize);
  const header = decodeItemHeader(window.bytes, position - window.start);
  if (header.size > limit - position) {
    const room = limit - position;
    throw new PbsfsError(
      'corrupt',
      `${header.name} item of ${header.size} bytes in ${room} bytes`,
      {
        context: { offset: position },
      },
    );
  }
  return header;
}

async function peekName(window: Window, position: number): Promise<ItemName | undefined> {
  if (!window.has(position, itemHeaderSize)) await window.load(position, itemHeaderSize);
  return itemNameAt(window.bytes, position - window.start);
}

/** A view of the content of an item. @param size of the whole item at `position`. */
export async function readContent(window: Window, position: number, size: number): Promise<Buffer> {
  if (!window.has(position, size)) await window.load(position, size);
  return window.slice(position + itemHeaderSize, size - itemHeaderSize);
}

/**
 * The name at `position`, or undefined where no FILENAME item starts there.
 * @throws PbsfsError `corrupt`
 */
export async function readHead(
  window: Window,
  position: number,
  limit: number,
  parent: PxarDirectory | undefined,
): Promise<EntryHead | undefined> {
  if ((await peekName(window, position)) !== 'FILENAME') return undefined;
  const header = await readHeader(window, position, limit);
  if (header === undefined) return undefined;
  const name = decodeFileName(await readContent(window, position, header.size));
  return { name, position, bodyStart: position + header.size, parent };
}

/**
 * The entry behind a FILENAME item, or the root.
 * @param limit where the entry ends at the latest.
 * @param end where it ends, if that is known.
 * @throws PbsfsError `corrupt`
 */
export async function readEntry(
  window: Window,
  head: EntryHead,
  limit: number,
  end?: number,
): Promise<ReadEntry> {
  const { bodyStart } = head;
  const first = await readHeader(window, bodyStart, limit);
  if (first?.name === 'HARDLINK') {
    const content = await readContent(window, bodyStart, first.size);
    const target = decodeHardLink(content, head.position);
    return { entry: new PxarHardLink(head, target), next: bodyStart + first.size };
  }
  if (first?.name !== 'ENTRY' && first?.name !== 'ENTRY_V1') {
    throw new PbsfsError('corrupt', `${first?.name ?? 'nothing'} where an ENTRY item should be`);
  }
  const body = await readContent(window, bodyStart, first.size);
  const stat = first.name === 'ENTRY' ? decodeStat(body, 0) : decodeStatV1(body, 0);
  const start = bodyStart + first.size;
  let at = start;
  for (let count = 0; ; count++) {
    const header = await readBehindStat(window, at, limit);
    if (header === undefined || !isAttributeItem(header.name)) {
      const attributes = at === start ? undefined : { start, end: at };
      return await readKind(window, { head, stat, attributes, contentStart: at, end }, header);
    }
    if (count === maxAttributeItems) {
      throw new PbsfsError('corrupt', `the entry has more than ${maxAttributeItems} attributes`);
    }
    at += header.size;
  }
}

/** An attribute or the content; undefined where the next member or the goodbye table follows. */
async function readBehindStat(
  window: Window,
  position: number,
  limit: number,
): Promise<ItemHeader | undefined> {
  if (position === limit) return undefined;
  const name = await peekName(window, position);
  return name === 'FILENAME' || name === 'GOODBYE'
    ? undefined
    : await readHeader(window, position, limit);
}

interface Body {
  readonly head: EntryHead;
  readonly stat: PxarStat;
  readonly attributes: ByteRange | undefined;
  /** Where the item behind the attributes starts. */
  readonly contentStart: number;
  readonly end: number | undefined;
}

/** The items that may stand behind the attributes of each kind. */
const contentsByKind: Readonly<Record<EntryKind, readonly (ItemName | undefined)[]>> = {
  directory: [undefined],
  file: ['PAYLOAD', 'PAYLOAD_REF'],
  symlink: ['SYMLINK'],
  block: ['DEVICE'],
  char: ['DEVICE'],
  fifo: [undefined],
  socket: [undefined],
};

/** @param content header of the item behind the attributes. */
async function readKind(
  window: Window,
  { head, stat, attributes, contentStart, end }: Body,
  content: ItemHeader | undefined,
): Promise<ReadEntry> {
  const kind = kindOfMode(stat.mode);
  if (kind === undefined || !contentsByKind[kind].includes(content?.name)) {
    const mode = stat.mode.toString(8);
    const found = content?.name ?? 'nothing';
    throw new PbsfsError('corrupt', `mode ${mode}, but ${found} where its content should be`);
  }
  const { name, position, parent } = head;
  const start = { name, position, parent, stat, attributes };
  const size = content?.size ?? 0;
  const next = contentStart + size;
  switch (kind) {
    case 'directory':
      return { entry: new PxarDirectory(start, contentStart, end), next: contentStart };
    case 'fifo':
    case 'socket':
      return { entry: new PxarIpc(start, kind), next: contentStart };
    case 'symlink': {
      const target = { start: contentStart + itemHeaderSize, end: next };
      return { entry: new PxarSymlink(start, target), next };
    }
    case 'block':
    case 'char': {
      const rdev = decodeDevice(await readContent(window, contentStart, size));
      return { entry: new PxarDevice(start, kind, rdev), next };
    }
    case 'file': {
      const place: PayloadPlace =
        content?.name === 'PAYLOAD'
          ? { stream: 'metadata', payloadPosition: contentStart, size: size - itemHeaderSize }
          : payloadPlace(await readContent(window, contentStart, size));
      return { entry: new PxarFile(start, place), next };
    }
  }
}

function payloadPlace(content: Buffer): PayloadPlace {
  const { position, size } = decodePayloadRef(content);
  return { stream: 'payload', payloadPosition: position, size };
}
