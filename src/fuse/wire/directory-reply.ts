/**
 * The records of a listing, each padded to 8 bytes; the form with attributes has an entry in front.
 *
 *   [entry, 128 bytes: see attributes.ts]   only in the plus form
 *   0 u64 ino, 8 u64 offset of the next record, 16 u32 length of the name, 20 u32 type, 24 name
 *
 * Source: `fuse_dirent` and `fuse_direntplus` of `linux/fuse.h`.
 */
import type { NodeKind } from '../../tree/node.ts';
import { type Entry, entrySize, writeEntry } from './attributes.ts';
import { writeU64 } from './u64.ts';

const headSize = 24;

/** `DT_*`: the type bits of a mode, shifted down by 12. */
const typeOf: Record<NodeKind, number> = {
  fifo: 1,
  char: 2,
  directory: 4,
  block: 6,
  file: 8,
  symlink: 10,
  socket: 12,
};

export interface DirectoryRecord {
  readonly name: Buffer;
  readonly ino: number;
  readonly kind: NodeKind;
  /** Where a reader goes on behind this record. */
  readonly next: number;
}

/** Collects records up to a size. */
export class DirectoryReply {
  readonly #bytes: Buffer;
  readonly #plus: boolean;
  #length = 0;

  /** @param plus in the form with attributes. */
  constructor(size: number, plus: boolean) {
    this.#bytes = Buffer.alloc(size);
    this.#plus = plus;
  }

  fits(name: Buffer): boolean {
    const size = (this.#plus ? entrySize : 0) + headSize + name.length;
    return this.#length + padded(size) <= this.#bytes.length;
  }

  /** Adds a record that fits. In the plus form without `entry` it has nodeid 0: only a name. */
  add(record: DirectoryRecord, entry?: Entry): void {
    let at = this.#length;
    if (this.#plus) {
      if (entry !== undefined) writeEntry(this.#bytes, at, entry);
      at += entrySize;
    }
    writeU64(this.#bytes, at, record.ino);
    writeU64(this.#bytes, at + 8, record.next);
    this.#bytes.writeUInt32LE(record.name.length, at + 16);
    this.#bytes.writeUInt32LE(typeOf[record.kind], at + 20);
    this.#bytes.set(record.name, at + headSize);
    this.#length = padded(at + headSize + record.name.length);
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }
}

function padded(size: number): number {
  return Math.ceil(size / 8) * 8;
}
