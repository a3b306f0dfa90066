/** Makes single entries on disk: files, links, and special nodes. */
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  linkSync,
  lstatSync,
  openSync,
  symlinkSync,
} from 'node:fs';
import { PbsfsError } from '../errors.ts';
import { Semaphore } from '../semaphore.ts';
import type { Attributes, File, Special, Symlink } from '../tree/node.ts';
import { errnoCode, isDiskFull } from './local-error.ts';
import type { Metadata, MetadataWriter } from './metadata.ts';
import type { TransferReport } from './report.ts';
import type { Syscalls } from './syscalls.ts';
import type { TargetDirectory } from './target-directory.ts';
import { writeContent } from './write-content.ts';

/**
 * What happens where something is there already: it stays and that is a failure; it is replaced; or a file stays
 * where size and time say that an earlier run has restored it, and everything else is replaced.
 */
export type Existing = 'refuse' | 'replace' | 'resume';

export interface NodeWriterParts {
  readonly root: TargetDirectory;
  readonly existing: Existing;
  readonly syscalls: Syscalls | undefined;
  readonly metadata: MetadataWriter;
  readonly report: TransferReport;
  readonly signal: AbortSignal;
  readonly onBytes: (bytes: number) => void;
}

/** Where an entry is made. */
export interface Target {
  readonly directory: TargetDirectory;
  readonly name: Buffer;
  /** Names below the root, the last one included. */
  readonly path: readonly Buffer[];
}

/** A file that was made, for other names to link to. */
export interface LinkSource {
  /** Names below the root. */
  readonly path: readonly Buffer[];
  readonly dev: bigint;
  readonly ino: bigint;
}

const createFlags =
  constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** Only us, until its own mode is set. */
const unfinishedMode = 0o600;
/** A file of more is read in several steps. */
const largeBytes = 4 * 1024 * 1024;
/** Large files at once: each keeps a few chunks of 4…16 MiB in memory. */
const largeAtOnce = 4;
/** `S_IFMT` values of Linux. */
const typeBits = { block: 0o060000, char: 0o020000, fifo: 0o010000, socket: 0o140000 };
const noDevice = { major: 0, minor: 0 };

/** Every method throws PbsfsError for the source, and PbsfsError or an errno error for the target. */
export class NodeWriter {
  readonly #parts: NodeWriterParts;
  readonly #replaces: boolean;
  readonly #large = new Semaphore(largeAtOnce);

  constructor(parts: NodeWriterParts) {
    this.#parts = parts;
    this.#replaces = parts.existing !== 'refuse';
  }

  /** @returns what later names of the file may link to, where it has any. */
  async writeFile(file: File, known: Metadata, target: Target): Promise<LinkSource | undefined> {
    const { signal, existing, onBytes } = this.#parts;
    const { size } = known.attributes;
    const found = existing === 'resume' ? target.directory.find(target.name) : undefined;
    if (found !== undefined && isRestored(found, known.attributes)) {
      onBytes(size);
      return { path: target.path, dev: found.dev, ino: found.ino };
    }
    if (size <= largeBytes) return await this.#fill(file, known, target);
    return await this.#large.run(() => this.#fill(file, known, target), signal);
  }

  /** What this or an earlier run has restored under a path, by size and time; undefined where it is not there. */
  findRestored(path: readonly Buffer[], attributes: Attributes): LinkSource | undefined {
    const name = path.at(-1);
    try {
      using directory = this.#parts.root.openPath(path.slice(0, -1));
      const found = name && directory.find(name);
      if (found === undefined || !isRestored(found, attributes)) return undefined;
      return { path, dev: found.dev, ino: found.ino };
    } catch {
      return undefined;
    }
  }

  async #fill(file: File, known: Metadata, target: Target): Promise<LinkSource | undefined> {
    const { signal, onBytes, metadata } = this.#parts;
    using place = target.directory.placeFor(target.name, this.#replaces);
    await using content = await file.open(signal);
    const fd = place.make((path) => openSync(path, createFlags, unfinishedMode));
    try {
      metadata.begin(fd, known.attributes);
      await writeContent(fd, content, signal, onBytes);
      const hasNames = known.attributes.nlink > 1;
      const made = hasNames ? fstatSync(fd, { bigint: true }) : undefined;
      place.complete(() => metadata.apply({ fd }, known));
      metadata.end(fd, known.attributes);
      return made && { path: target.path, dev: made.dev, ino: made.ino };
    } finally {
      closeSync(fd);
    }
  }

  /** Another name of what was made before. @returns false where that cannot be: write it again then. */
  linkFile(source: LinkSource, { directory, name }: Target): boolean {
    const { root, report } = this.#parts;
    if (isSource(directory.find(name), source)) return true;
    try {
      using parent = root.openPath(source.path.slice(0, -1));
      const from = parent.pathOf(source.path.at(-1) ?? name);
      using place = directory.placeFor(name, this.#replaces);
      const made = place.make((path) => {
        linkSync(from, path);
        return lstatSync(path, { bigint: true });
      });
      if (!isSource(made, source)) throw new PbsfsError('failed', 'its first name was taken away');
      place.complete(() => {});
      return true;
    } catch (error) {
      const code = errnoCode(error);
      if (code === undefined || code === 'EEXIST' || isDiskFull(error)) throw error;
      report.lose('hard links (written as files of their own)');
      return false;
    }
  }

  async writeSymlink(link: Symlink, known: Metadata, target: Target): Promise<void> {
    const destination = await link.target(this.#parts.signal);
    using place = target.directory.placeFor(target.name, this.#replaces);
    place.make((path) => symlinkSync(destination, path));
    place.complete((path) => this.#parts.metadata.apply({ path }, known, true));
  }

  writeSpecial(node: Special, known: Metadata, target: Target): void {
    const { syscalls, metadata, report } = this.#parts;
    if (syscalls === undefined) {
      report.lose('device nodes, fifos and sockets (the package koffi is missing)');
      return;
    }
    using place = target.directory.placeFor(target.name, this.#replaces);
    const rdev = known.attributes.rdev ?? noDevice;
    try {
      place.make((path) => syscalls.makeNode(path, typeBits[node.kind] | unfinishedMode, rdev));
    } catch (error) {
      if (errnoCode(error) !== 'EPERM') throw error;
      report.lose('device nodes, fifos and sockets');
      return;
    }
    place.complete((path) => metadata.apply({ path }, known));
  }
}

function isSource(found: BigIntStats | undefined, source: LinkSource): boolean {
  return found?.ino === source.ino && found.dev === source.dev;
}

const nanosPerSecond = 1_000_000_000n;

/** The time is set last, so it tells a complete file from one that was broken off. */
function isRestored(found: BigIntStats, { size, mtime }: Attributes): boolean {
  const time = BigInt(mtime.seconds) * nanosPerSecond + BigInt(mtime.nanos);
  return found.isFile() && found.size === BigInt(size) && found.mtimeNs === time;
}
