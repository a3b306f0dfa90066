/**
 * Writes a pxar archive of format v1, piece by piece: each method gives the bytes that come next, and whoever writes
 * puts the content of a file behind its start. PBS sorts the members of a directory by the bytes of their names.
 *
 *   root   := startRoot member* endDirectory
 *   member := startDirectory member* endDirectory | startFile CONTENT | hardLink | symlink | device | ipc
 *
 * Source: `pxar` crate, `encoder/mod.rs`.
 */
import { PbsfsError } from '../../errors.ts';
import type { PxarXattr } from './attributes.ts';
import { encodeAttributes } from './encode-attributes.ts';
import { encodeGoodbyeTable, type GoodbyeMember } from './encode-goodbye.ts';
import { encodeItem, encodeItemHeader, encodeU64 } from './encode-item.ts';
import type { DeviceNumber } from './entry.ts';
import { sipHash } from './sip-hash.ts';
import type { PxarStat } from './stat.ts';

/** An entry without its name and its content. */
export interface EncodableMetadata extends PxarStat {
  /** ACLs and capabilities among them, as the kernel has them. */
  readonly xattrs: readonly PxarXattr[];
  readonly quotaProjectId?: number;
}

/** A file that hard links may lead to. */
export interface EncodedFile {
  readonly bytes: Buffer;
  /** Of its FILENAME item. */
  readonly position: number;
  /** From the root, without a leading slash. */
  readonly path: Buffer;
}

interface OpenDirectory {
  /** From the root; empty for the root. */
  readonly path: Buffer;
  /** Of its FILENAME item. */
  readonly position: number;
  readonly entryPosition: number;
  readonly members: GoodbyeMember[];
}

const nul = Buffer.alloc(1);
const slash = Buffer.from('/');

/** Every method throws PbsfsError `unsupported` for what a pxar archive cannot hold. */
export class PxarEncoder {
  readonly #open: OpenDirectory[] = [];
  /** Bytes given so far, contents of files included. */
  #position = 0;

  /** The root has no name. */
  startRoot(metadata: EncodableMetadata): Buffer {
    this.#open.push({ path: Buffer.alloc(0), position: 0, entryPosition: 0, members: [] });
    return this.#give(encodeEntry(metadata));
  }

  startDirectory(name: Buffer, metadata: EncodableMetadata): Buffer {
    const position = this.#position;
    const path = this.#pathOf(name);
    const start = encodeName(name);
    const entryPosition = position + start.length;
    const bytes = this.#give(Buffer.concat([start, encodeEntry(metadata)]));
    this.#open.push({ path, position, entryPosition, members: [] });
    return bytes;
  }

  /** The goodbye table of the directory that was started last. */
  endDirectory(): Buffer {
    const directory = this.#open.pop();
    if (directory === undefined) throw new PbsfsError('bug', 'no pxar directory is open');
    const { members, entryPosition, position, path } = directory;
    const bytes = this.#give(encodeGoodbyeTable(members, this.#position, entryPosition));
    const name = path.subarray(path.lastIndexOf(slash) + 1);
    if (this.#open.length > 0) this.#addMember(name, position);
    return bytes;
  }

  /** Exactly `size` bytes of content have to follow. */
  startFile(name: Buffer, metadata: EncodableMetadata, size: number): EncodedFile {
    const position = this.#position;
    const start = [encodeName(name), encodeEntry(metadata), encodeItemHeader('PAYLOAD', size)];
    const bytes = this.#give(Buffer.concat(start));
    this.#position += size;
    this.#addMember(name, position);
    return { bytes, position, path: this.#pathOf(name) };
  }

  /** Another name of a file that was written before. */
  hardLink(name: Buffer, { position, path }: EncodedFile): Buffer {
    const distance = encodeU64(this.#position - position);
    return this.#leaf(name, encodeItem('HARDLINK', distance, path, nul));
  }

  symlink(name: Buffer, metadata: EncodableMetadata, target: Buffer): Buffer {
    return this.#leaf(name, encodeEntry(metadata), encodeItem('SYMLINK', target, nul));
  }

  /** A block or character device. */
  device(name: Buffer, metadata: EncodableMetadata, { major, minor }: DeviceNumber): Buffer {
    return this.#leaf(name, encodeEntry(metadata), encodeItem('DEVICE', encodeU64(major, minor)));
  }

  /** A fifo or a socket. */
  ipc(name: Buffer, metadata: EncodableMetadata): Buffer {
    return this.#leaf(name, encodeEntry(metadata));
  }

  #leaf(name: Buffer, ...items: readonly Buffer[]): Buffer {
    const position = this.#position;
    const bytes = this.#give(Buffer.concat([encodeName(name), ...items]));
    this.#addMember(name, position);
    return bytes;
  }

  #give(bytes: Buffer): Buffer {
    this.#position += bytes.length;
    return bytes;
  }

  #addMember(name: Buffer, position: number): void {
    this.#directory().members.push({
      hash: sipHash(name),
      position,
      size: this.#position - position,
    });
  }

  #pathOf(name: Buffer): Buffer {
    const { path } = this.#directory();
    return path.length === 0 ? name : Buffer.concat([path, slash, name]);
  }

  #directory(): OpenDirectory {
    const directory = this.#open.at(-1);
    if (directory === undefined) throw new PbsfsError('bug', 'no pxar directory is open');
    return directory;
  }
}

function encodeName(name: Buffer): Buffer {
  const text = name.toString('latin1');
  if (text === '' || text === '.' || text === '..' || /[/\0]/.test(text)) {
    throw new PbsfsError('unsupported', 'a pxar archive cannot hold that name');
  }
  return encodeItem('FILENAME', name, nul);
}

/** The ENTRY item, see `stat.ts`, and attributes. */
function encodeEntry(metadata: EncodableMetadata): Buffer {
  const { mode, flags, uid, gid, mtime, xattrs, quotaProjectId } = metadata;
  const stat = Buffer.alloc(40);
  stat.writeBigUInt64LE(BigInt(mode), 0);
  stat.writeBigUInt64LE(BigInt(flags), 8);
  stat.writeUInt32LE(uid, 16);
  stat.writeUInt32LE(gid, 20);
  stat.writeBigInt64LE(BigInt(mtime.seconds), 24);
  stat.writeUInt32LE(mtime.nanos, 32);
  return Buffer.concat([encodeItem('ENTRY', stat), encodeAttributes(xattrs, quotaProjectId)]);
}
