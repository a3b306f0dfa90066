/**
 * What an archive holds, as values. An entry keeps what `stat` asks for and where the rest lies; link targets,
 * attributes and content are read when they are wanted.
 *
 * A mount keeps an entry of each file for as long as its kernel remembers it, by the hundred thousand. So an
 * entry is one object of numbers and one string; what is an object of its own is made when it is asked for.
 * Source: `pxar` crate, `lib.rs` (`Entry`, `EntryKind`).
 */
import type { PxarStat, PxarTime } from './stat.ts';

/** `[start, end)` of the metadata stream. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export interface DeviceNumber {
  readonly major: number;
  readonly minor: number;
}

/** Where an entry stands in its archive. */
export interface EntryPlace {
  /** Undefined for the root, and for what was found by a hard link. */
  readonly parent: PxarDirectory | undefined;
  /** As stored, without NUL; empty for the root. */
  readonly name: Buffer;
  /** Position of its FILENAME item in the metadata stream, 0 for the root: names the entry for ever. */
  readonly position: number;
}

/** What all entries have but hard links. */
export interface EntryStart extends EntryPlace {
  readonly stat: PxarStat;
  /** Where its attribute items lie; undefined where it has none. */
  readonly attributes: ByteRange | undefined;
}

/** A name as a string that maps can be keyed by: one character a byte. */
export function nameKey(name: Buffer): string {
  return name.toString('latin1');
}

abstract class BaseEntry implements EntryPlace {
  readonly parent: PxarDirectory | undefined;
  readonly nameKey: string;
  readonly position: number;

  constructor({ parent, name, position }: EntryPlace) {
    this.parent = parent;
    this.nameKey = nameKey(name);
    this.position = position;
  }

  get name(): Buffer {
    return Buffer.from(this.nameKey, 'latin1');
  }
}

abstract class StatEntry extends BaseEntry implements PxarStat {
  readonly mode: number;
  readonly flags: number;
  readonly uid: number;
  readonly gid: number;
  readonly #seconds: number;
  readonly #nanos: number;
  /** Both 0 where there are none. */
  readonly #attributesStart: number;
  readonly #attributesEnd: number;

  constructor(start: EntryStart) {
    super(start);
    const { stat, attributes } = start;
    this.mode = stat.mode;
    this.flags = stat.flags;
    this.uid = stat.uid;
    this.gid = stat.gid;
    this.#seconds = stat.mtime.seconds;
    this.#nanos = stat.mtime.nanos;
    this.#attributesStart = attributes?.start ?? 0;
    this.#attributesEnd = attributes?.end ?? 0;
  }

  get mtime(): PxarTime {
    return { seconds: this.#seconds, nanos: this.#nanos };
  }

  get attributes(): ByteRange | undefined {
    if (this.#attributesEnd === 0) return undefined;
    return { start: this.#attributesStart, end: this.#attributesEnd };
  }

  protected get start(): EntryStart {
    const { parent, name, position, attributes } = this;
    return { parent, name, position, attributes, stat: this };
  }
}

export class PxarDirectory extends StatEntry {
  /** Where its first member, or its goodbye table, starts. */
  readonly membersStart: number;
  /** One past its goodbye table; undefined while a sequential pass has not come there. */
  readonly end: number | undefined;

  constructor(start: EntryStart, membersStart: number, end: number | undefined) {
    super(start);
    this.membersStart = membersStart;
    this.end = end;
  }

  get kind(): 'directory' {
    return 'directory';
  }

  /** The same directory, once it is known where it ends. */
  endingAt(end: number | undefined): PxarDirectory {
    return new PxarDirectory(this.start, this.membersStart, end);
  }
}

/** Where the content of a file is. */
export interface PayloadPlace {
  /** `payload` for a split archive. */
  readonly stream: 'metadata' | 'payload';
  /** Position of its PAYLOAD item in that stream; the content lies behind the 16 bytes of its header. */
  readonly payloadPosition: number;
  readonly size: number;
}

export class PxarFile extends StatEntry implements PayloadPlace {
  readonly stream: 'metadata' | 'payload';
  readonly payloadPosition: number;
  readonly size: number;

  constructor(start: EntryStart, { stream, payloadPosition, size }: PayloadPlace) {
    super(start);
    this.stream = stream;
    this.payloadPosition = payloadPosition;
    this.size = size;
  }

  get kind(): 'file' {
    return 'file';
  }

  /** The same file under another of its names. */
  namedAs({ name, parent }: Pick<EntryPlace, 'name' | 'parent'>): PxarFile {
    return new PxarFile({ ...this.start, name, parent }, this);
  }
}

export class PxarSymlink extends StatEntry {
  readonly #targetStart: number;
  readonly #targetEnd: number;

  constructor(start: EntryStart, target: ByteRange) {
    super(start);
    this.#targetStart = target.start;
    this.#targetEnd = target.end;
  }

  get kind(): 'symlink' {
    return 'symlink';
  }

  /** Where its target lies, the NUL included. */
  get target(): ByteRange {
    return { start: this.#targetStart, end: this.#targetEnd };
  }
}

export class PxarDevice extends StatEntry {
  readonly kind: 'block' | 'char';
  readonly rdev: DeviceNumber;

  constructor(start: EntryStart, kind: 'block' | 'char', rdev: DeviceNumber) {
    super(start);
    this.kind = kind;
    this.rdev = rdev;
  }
}

export class PxarIpc extends StatEntry {
  readonly kind: 'fifo' | 'socket';

  constructor(start: EntryStart, kind: 'fifo' | 'socket') {
    super(start);
    this.kind = kind;
  }
}

/** A further name of a file that comes earlier in the archive; everything else is the file's. */
export class PxarHardLink extends BaseEntry {
  /** `position` of the file. */
  readonly targetPosition: number;

  constructor(place: EntryPlace, targetPosition: number) {
    super(place);
    this.targetPosition = targetPosition;
  }

  get kind(): 'hardlink' {
    return 'hardlink';
  }
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

/** Linux' `NAME_MAX`. */
const maxNameLength = 255;

/** Why no filesystem can show a name, or undefined where it can. @param key see `nameKey`. */
export function whyUnusable(key: string): string | undefined {
  if (key.length > maxNameLength) return `a name of ${key.length} bytes`;
  if (key === '') return 'an empty name';
  if (key.includes('\0')) return 'a NUL in a name';
  if (key.includes('/')) return 'a slash in a name';
  if (key === '.' || key === '..') return `the name '${key}'`;
  return undefined;
}
