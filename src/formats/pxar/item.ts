/**
 * Items: everything in a pxar archive is one, one behind the other without padding. Little-endian.
 *
 *    0  8   type: a hash of `__PROXMOX_FORMAT_…__`
 *    8  8   size of the whole item, these 16 bytes included
 *   16  …   content
 *
 *   archive   := [FORMAT_VERSION [PRELUDE]] directory
 *   directory := ENTRY attribute* member* GOODBYE
 *   member    := FILENAME ( HARDLINK | directory | ENTRY attribute* [content] )
 *   content   := PAYLOAD | PAYLOAD_REF | SYMLINK | DEVICE      (a fifo or a socket has none)
 *   attribute := XATTR | ACL_… | FCAPS | QUOTA_PROJID
 *
 * Source: `pxar` crate, `format/mod.rs`.
 */
import { PbsfsError } from '../../errors.ts';
import { readU64 } from '../bytes.ts';
import type { Hash64 } from './sip-hash.ts';

export const itemHeaderSize = 16;

/** Names of the items, as the `pxar` crate has them behind `PXAR_`. */
export type ItemName =
  | 'FORMAT_VERSION'
  | 'PRELUDE'
  | 'ENTRY'
  | 'ENTRY_V1'
  | 'FILENAME'
  | 'SYMLINK'
  | 'HARDLINK'
  | 'DEVICE'
  | 'XATTR'
  | 'ACL_USER'
  | 'ACL_GROUP'
  | 'ACL_GROUP_OBJ'
  | 'ACL_DEFAULT'
  | 'ACL_DEFAULT_USER'
  | 'ACL_DEFAULT_GROUP'
  | 'FCAPS'
  | 'QUOTA_PROJID'
  | 'PAYLOAD'
  | 'PAYLOAD_REF'
  | 'GOODBYE'
  | 'PAYLOAD_START_MARKER'
  | 'PAYLOAD_TAIL_MARKER';

interface ItemType extends Hash64 {
  /** Bounds of the content, in bytes. */
  readonly min: number;
  readonly max: number;
}

/** Linux' `PATH_MAX`, the crate's limit of names, link targets and paths; each has a NUL behind it. */
const maxPath = 4096;
/** Linux' longest name and value of an extended attribute; the NUL between them counts too. */
const maxXattr = 255 + 65536;
const anySize = Number.MAX_SAFE_INTEGER - itemHeaderSize;

function type(high: number, low: number, min: number, max: number = min): ItemType {
  return { high, low, min, max };
}

/** Type and size limits of each item. */
export const itemTypes: Readonly<Record<ItemName, ItemType>> = {
  FORMAT_VERSION: type(0x730f6c75, 0xdf16a40d, 8),
  PRELUDE: type(0xe309d79d, 0x9f7b771b, 0, anySize),
  ENTRY: type(0xd5956474, 0xe588acef, 40),
  ENTRY_V1: type(0x11da850a, 0x1c1cceff, 32),
  FILENAME: type(0x16701121, 0x063917b3, 1, maxPath + 1),
  SYMLINK: type(0x27f971e7, 0xdbf5dc5f, 2, maxPath + 1),
  HARDLINK: type(0x51269c84, 0x22bd7275, 9, 8 + maxPath + 1),
  DEVICE: type(0x9fc9e906, 0x586d5ce9, 16),
  XATTR: type(0x0dab0229, 0xb57dcd03, 1, maxXattr),
  ACL_USER: type(0x2ce8540a, 0x457d55b8, 16),
  ACL_GROUP: type(0x136e3ece, 0xb04c03ab, 16),
  ACL_GROUP_OBJ: type(0x10868031, 0xe9582876, 8),
  ACL_DEFAULT: type(0xbbbb1341, 0x5a6896f5, 32),
  ACL_DEFAULT_USER: type(0xc89357b4, 0x0532cd1f, 16),
  ACL_DEFAULT_GROUP: type(0xf90a8a58, 0x16038ffe, 16),
  FCAPS: type(0x2da9dd9d, 0xb5f7fb67, 0, maxXattr),
  QUOTA_PROJID: type(0xe07540e8, 0x2f7d1cbb, 8),
  PAYLOAD: type(0x28147a1b, 0x0b7c1a25, 0, anySize),
  PAYLOAD_REF: type(0x419d3d6b, 0xc4ba977e, 16),
  GOODBYE: type(0x2fec4fa6, 0x42d5731d, 24, anySize),
  PAYLOAD_START_MARKER: type(0x834c68c2, 0x194a4ed2, 0),
  PAYLOAD_TAIL_MARKER: type(0x6c72b78b, 0x984c81b5, 0),
};

/** No two types share their low half. */
const namesByLowHalf: ReadonlyMap<number, ItemName> = new Map(
  (Object.keys(itemTypes) as ItemName[]).map((name) => [itemTypes[name].low, name]),
);

/** Name of the item whose header starts at `offset`, undefined where it is none. */
export function itemNameAt(bytes: Buffer, offset: number): ItemName | undefined {
  const name = namesByLowHalf.get(bytes.readUInt32LE(offset));
  if (name === undefined) return undefined;
  return itemTypes[name].high === bytes.readUInt32LE(offset + 4) ? name : undefined;
}

export interface ItemHeader {
  readonly name: ItemName;
  /** Bytes of the whole item. */
  readonly size: number;
}

/**
 * The 16 bytes at `offset`. The size is within the limits of the item's type.
 * @throws PbsfsError `corrupt`
 */
export function decodeItemHeader(bytes: Buffer, offset: number): ItemHeader {
  const name = itemNameAt(bytes, offset);
  if (name === undefined) {
    const found = bytes.readBigUInt64LE(offset).toString(16).padStart(16, '0');
    throw new PbsfsError('corrupt', `no pxar item: unknown type ${found}`);
  }
  const size = readU64(bytes, offset + 8, `size of ${name} item`);
  const { min, max } = itemTypes[name];
  const contentSize = size - itemHeaderSize;
  if (contentSize < min || contentSize > max) {
    const allowed = min === max ? `${min}` : `${min}…${max}`;
    throw new PbsfsError('corrupt', `${name} item has ${contentSize} bytes, not ${allowed}`);
  }
  return { name, size };
}

/** True for the items that stand between an ENTRY and its content. */
export function isAttributeItem(name: ItemName): boolean {
  return name === 'XATTR' || name === 'FCAPS' || name === 'QUOTA_PROJID' || name.startsWith('ACL_');
}
