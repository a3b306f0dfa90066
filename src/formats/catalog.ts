/**
 * File catalog (`catalog.pcat1.didx`): names, types, sizes and times of everything in the `.pxar` archives of
 * a snapshot, so that a listing needs no archive.
 *
 *   0       8   magic
 *   8       …   directory blocks, children before their parents
 *   size−8  8   offset of the root block, little-endian; its directories are the archives
 *
 *   block     := bytes of table (varint), table
 *   table     := count (varint), entry*
 *   entry     := type (1), bytes of name (varint), name, then
 *                `d`: distance back from this block to that of the directory (varint)
 *                `f`: size (varint), mtime in seconds (signed varint)
 *
 * A varint has 7 bits a byte, the low ones first, bit 7 set where more follow. A negative one has it set on
 * every byte, and a zero byte behind.
 * Source: PBS `pbs-datastore/src/catalog.rs`.
 */
import { PbsfsError } from '../errors.ts';
import { readU64 } from './bytes.ts';

/** First bytes of a catalog. */
export const catalogMagic: Buffer = Buffer.from('91fd60f9c46758d5', 'hex');
/** Bytes behind the last block. */
export const catalogTrailerSize = 8;

/** PBS refuses longer names. */
const maxNameLength = 4095;
const maxVarintLength = 11;
/** Type, length of the name, name, and two numbers: no entry is longer. */
export const maxCatalogEntrySize: number = 1 + maxNameLength + 3 * maxVarintLength;

export type CatalogKind =
  | 'directory'
  | 'file'
  | 'symlink'
  | 'hardlink'
  | 'block'
  | 'char'
  | 'fifo'
  | 'socket';

const kinds: ReadonlyMap<number, CatalogKind> = new Map([
  [0x64, 'directory'],
  [0x66, 'file'],
  [0x6c, 'symlink'],
  [0x68, 'hardlink'],
  [0x62, 'block'],
  [0x63, 'char'],
  [0x70, 'fifo'],
  [0x73, 'socket'],
]);

export interface CatalogEntry {
  readonly kind: CatalogKind;
  readonly name: Buffer;
  /** Offset of the block of a directory. */
  readonly block?: number;
  /** Of a file. */
  readonly size?: number;
  /** Of a file, seconds. */
  readonly mtime?: number;
}

/**
 * Offset of the root block, from the last bytes of a catalog.
 * @throws PbsfsError `corrupt`
 */
export function decodeCatalogTrailer(bytes: Buffer): number {
  return readU64(bytes, 0, 'offset of the root in the catalog');
}

/** Reads the numbers and entries of a block one by one. */
export class CatalogReader {
  readonly #bytes: Buffer;
  #at = 0;

  /** @param bytes part of a block; what is read must lie within. */
  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Bytes read so far. */
  get consumed(): number {
    return this.#at;
  }

  /** @throws PbsfsError `corrupt` */
  unsigned(what: string): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.#byte();
      value += (byte & 0x7f) * scale;
      if (!Number.isSafeInteger(value)) throw tooLarge(what);
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
  }

  /** @throws PbsfsError `corrupt` */
  signed(what: string): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.#byte();
      if (byte === 0) return value === 0 ? 0 : -value;
      value += (byte & 0x7f) * scale;
      if (!Number.isSafeInteger(value)) throw tooLarge(what);
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
  }

  /**
   * @param block offset of the block that the entry is in.
   * @throws PbsfsError `corrupt`
   */
  entry(block: number): CatalogEntry {
    const type = this.#byte();
    const kind = kinds.get(type);
    if (kind === undefined) {
      throw new PbsfsError('corrupt', `unknown type ${type} of an entry in the catalog`);
    }
    const name = this.#name();
    switch (kind) {
      case 'directory': {
        const distance = this.unsigned('distance of a directory');
        if (distance < 1 || block - distance < catalogMagic.length) {
          throw new PbsfsError('corrupt', `a directory lies ${distance} bytes before ${block}`);
        }
        return { kind, name, block: block - distance };
      }
      case 'file':
        return { kind, name, size: this.unsigned('file size'), mtime: this.signed('file time') };
      default:
        return { kind, name };
    }
  }

  #name(): Buffer {
    const length = this.unsigned('length of a name');
    const name = this.#bytes.subarray(this.#at, this.#at + length);
    if (length > maxNameLength || name.length < length) {
      throw new PbsfsError('corrupt', `a name of ${length} bytes in the catalog`);
    }
    this.#at += length;
    return Buffer.from(name);
  }

  #byte(): number {
    const byte = this.#bytes[this.#at++];
    if (byte === undefined) throw new PbsfsError('corrupt', 'a catalog entry is cut off');
    return byte;
  }
}

function tooLarge(what: string): PbsfsError {
  return new PbsfsError('corrupt', `${what} in the catalog is beyond 2^53−1`);
}
