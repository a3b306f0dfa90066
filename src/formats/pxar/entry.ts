/**
 * What an archive holds, as values, and the items that say so:
 *
 *   FORMAT_VERSION  version (8): 1, or 2 for a split archive
 *   FILENAME        name, NUL
 *   SYMLINK         target, NUL
 *   HARDLINK        distance back from this FILENAME to that of the target (8), path of the target, NUL
 *   DEVICE          major (8), minor (8)
 *   PAYLOAD_REF     position of the PAYLOAD item in the payload stream (8), size of the file (8)
 *
 * An entry keeps what `stat` asks for and where the rest lies; link targets, attributes and content are read
 * when they are wanted, so that a long listing stays small.
 * Source: `pxar` crate, `format/mod.rs`, `lib.rs` (`Entry`, `EntryKind`).
 */
import { PbsfsError } from '../../errors.ts';
import { readU64 } from '../bytes.ts';
import type { PxarStat } from './stat.ts';

/** `[start, end)` of the metadata stream. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

interface BaseEntry {
  /** Undefined for the root, and for what was found by a hard link. */
  readonly parent: PxarDirectory | undefined;
  /** As stored, without NUL; empty for the root. */
  readonly name: Buffer;
  /** Position of its FILENAME item in the metadata stream, 0 for the root: names the entry for ever. */
  readonly position: number;
}

interface StatEntry extends BaseEntry, PxarStat {
  /** Where its attribute items lie; undefined where it has none. */
  readonly attributes: ByteRange | undefined;
}

export interface PxarDirectory extends StatEntry {
  readonly kind: 'directory';
  /** Where its first member, or its goodbye table, starts. */
  readonly membersStart: number;
  /** One past its goodbye table; undefined while a sequential pass has not come there. */
  readonly end: number | undefined;
}

export interface PxarFile extends StatEntry {
  readonly kind: 'file';
  readonly size: number;
  /** `payload` for a split archive. */
  readonly stream: 'metadata' | 'payload';
  /** Position of its PAYLOAD item in that stream; the content lies behind the 16 bytes of its header. */
  readonly payloadPosition: number;
}

export interface PxarSymlink extends StatEntry {
  readonly kind: 'symlink';
  /** Where its target lies, the NUL included. */
  readonly target: ByteRange;
}

export interface PxarDevice extends StatEntry {
  readonly kind: 'block' | 'char';
  readonly rdev: DeviceNumber;
}

export interface PxarIpc extends StatEntry {
  readonly kind: 'fifo' | 'socket';
}

/** A further name of a file that comes earlier in the archive; everything else is the file's. */
export interface PxarHardLink extends BaseEntry {
  readonly kind: 'hardlink';
  /** `position` of the file. */
  readonly targetPosition: number;
}

export type PxarEntry =
  | PxarDirectory
  | PxarFile
  | PxarSymlink
  | PxarDevice
  | PxarIpc
  | PxarHardLink;

/** The kinds that have a mode, and say so in it. */
export type EntryKind = Exclude<PxarEntry['kind'], 'hardlink'>;

/** Everything but a directory. */
export type PxarLeaf = Exclude<PxarEntry, PxarDirectory>;

export interface DeviceNumber {
  readonly major: number;
  readonly minor: number;
}

/** `S_IFMT` and its values, of Linux. */
const typeMask = 0o170000;
const kindsByType: ReadonlyMap<number, EntryKind> = new Map([
  [0o040000, 'directory'],
  [0o100000, 'file'],
  [0o120000, 'symlink'],
  [0o060000, 'block'],
  [0o020000, 'char'],
  [0o010000, 'fifo'],
  [0o140000, 'socket'],
]);

/** The kind that a full `st_mode` says, undefined for an unknown type. */
export function kindOfMode(mode: number): EntryKind | undefined {
  return kindsByType.get(mode & typeMask);
}

/** @throws PbsfsError `unsupported` for a version that is not known. */
export function decodeFormatVersion(content: Buffer): 1 | 2 {
  const version = readU64(content, 0, 'pxar format version');
  if (version === 1 || version === 2) return version;
  throw new PbsfsError('unsupported', `pxar format version ${version} is not known, only 1 and 2`);
}

/** A copy of the name in the content of a FILENAME item. @throws PbsfsError `corrupt` */
export function decodeFileName(content: Buffer): Buffer {
  return Buffer.from(withoutNul(content, 'name'));
}

/** A copy of the target in the content of a SYMLINK item. @throws PbsfsError `corrupt` */
export function decodeSymlink(content: Buffer): Buffer {
  const target = withoutNul(content, 'link target');
  if (target.includes(0)) throw new PbsfsError('corrupt', 'a link target has a NUL in it');
  return Buffer.from(target);
}

function withoutNul(content: Buffer, what: string): Buffer {
  if (content.at(-1) !== 0) throw new PbsfsError('corrupt', `a ${what} has no terminating NUL`);
  return content.subarray(0, -1);
}

/**
 * Position of the file that a HARDLINK item stands for; its path is redundant.
 * @param position of the link's own FILENAME item.
 * @throws PbsfsError `corrupt`
 */
export function decodeHardLink(content: Buffer, position: number): number {
  const distance = readU64(content, 0, 'distance of a hard link');
  if (distance === 0 || distance > position) {
    throw new PbsfsError('corrupt', `a hard link points ${distance} bytes back from ${position}`);
  }
  return position - distance;
}

/** @throws PbsfsError `corrupt` */
export function decodeDevice(content: Buffer): DeviceNumber {
  return {
    major: readU64(content, 0, 'major device number'),
    minor: readU64(content, 8, 'minor device number'),
  };
}

/** @throws PbsfsError `corrupt` */
export function decodePayloadRef(content: Buffer): {
  readonly position: number;
  readonly size: number;
} {
  return {
    position: readU64(content, 0, 'position of a payload'),
    size: readU64(content, 8, 'size of a payload'),
  };
}

/** Linux' `NAME_MAX`. */
const maxNameLength = 255;
const slash = 0x2f;

/** Why no filesystem can show `name`, or undefined where it can. */
export function whyUnusable(name: Buffer): string | undefined {
  if (name.length > maxNameLength) return `a name of ${name.length} bytes`;
  if (name.length === 0) return 'an empty name';
  if (name.includes(0)) return 'a NUL in a name';
  if (name.includes(slash)) return 'a slash in a name';
  if (name.equals(dot) || name.equals(dotDot)) return `the name '${name.toString()}'`;
  return undefined;
}

const dot = Buffer.from('.');
const dotDot = Buffer.from('..');
