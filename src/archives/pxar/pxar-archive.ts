/**
 * One pxar archive, opened: a tree of entries over one stream (`X.pxar`), or over two where metadata and
 * payload are stored apart (`X.mpxar`, `X.ppxar`).
 *
 * Nothing is read before it is asked for. Listing reads a goodbye table and the headers it points at, a lookup
 * the table and one header; content is a range of a stream. What is remembered is bounded.
 * Source: `pxar` crate, `accessor/mod.rs`.
 */
import { PbsfsError, toPbsfsError } from '../../errors.ts';
import { decodeAttributes, type PxarAttributes } from '../../formats/pxar/attributes.ts';
import {
  type ByteRange,
  nameKey,
  type PxarDirectory,
  type PxarEntry,
  type PxarFile,
  type PxarHardLink,
  type PxarSymlink,
  whyUnusable,
} from '../../formats/pxar/entry.ts';
import { decodeFormatVersion, decodeSymlink } from '../../formats/pxar/entry-items.ts';
import { itemHeaderSize } from '../../formats/pxar/item.ts';
import { type Logger, silentLogger } from '../../log.ts';
import { type ReadAt, readExactly } from '../../read-at.ts';
import { Range } from '../../read-range.ts';
import { locateContent, type PxarContent } from './content.ts';
import { DirectoryReader } from './directory-reader.ts';
import { formatPxarPath } from './pxar-path.ts';
import type { PxarListing } from './read-directory.ts';
import { readContent, readEntry, readHead, readHeader } from './read-entry.ts';
import { rememberDamage } from './remember-damage.ts';
import { resumeByTables } from './resume.ts';
import { type PxarStep, walkItems } from './walk.ts';
import { Window } from './window.ts';

export interface PxarOptions {
  /** Told of broken goodbye tables and of names that cannot be shown, once a directory. */
  readonly logger?: Logger;
  /** Bytes of goodbye tables, and as many of listings in place of broken ones, to remember. */
  readonly indexBytes?: number;
}

/** Tables of some 500,000 members. */
const defaultIndexBytes = 16 * 1024 * 1024;
/** Attributes of one entry, or a prelude; a kernel allows 64 KiB for each attribute. */
const maxBlock = 16 * 1024 * 1024;

/**
 * Opens the archive whose metadata lies in `metadata`.
 * @param payload the payload stream of a split archive; where it is missing, content cannot be read.
 * @throws PbsfsError `corrupt`, `unsupported`, and whatever the stream throws.
 */
export async function openPxar(
  metadata: ReadAt,
  payload?: ReadAt,
  options: PxarOptions = {},
  signal?: AbortSignal,
): Promise<PxarArchive> {
  return new PxarArchive(metadata, payload, options, await readStart(metadata, signal));
}

interface ArchiveStart {
  readonly version: 1 | 2;
  readonly prelude: ByteRange | undefined;
  readonly root: PxarDirectory;
}

async function readStart(metadata: ReadAt, signal?: AbortSignal): Promise<ArchiveStart> {
  const window = new Window(metadata, signal);
  const limit = metadata.size;
  let at = 0;
  let version: 1 | 2 = 1;
  let prelude: ByteRange | undefined;
  let header = await readHeader(window, at, limit);
  if (header?.name === 'FORMAT_VERSION') {
    version = decodeFormatVersion(await readContent(window, at, header.size));
    at += header.size;
    header = await readHeader(window, at, limit);
    if (header?.name === 'PRELUDE') {
      prelude = { start: at + itemHeaderSize, end: at + header.size };
      at += header.size;
    }
  }
  const head = { name: Buffer.alloc(0), position: 0, bodyStart: at, parent: undefined };
  const { entry } = await readEntry(window, head, limit, limit);
  if (entry.kind !== 'directory') {
    throw new PbsfsError('corrupt', `the archive starts with a ${entry.kind}, not a directory`);
  }
  return { version, prelude, root: entry };
}

export class PxarArchive {
  readonly root: PxarDirectory;
  readonly formatVersion: 1 | 2;
  /** Bytes of the metadata stream. */
  readonly metadataSize: number;
  readonly #metadata: ReadAt;
  readonly #payload: ReadAt | undefined;
  readonly #prelude: ByteRange | undefined;
  readonly #directories: DirectoryReader;

  constructor(
    metadata: ReadAt,
    payload: ReadAt | undefined,
    options: PxarOptions,
    start: ArchiveStart,
  ) {
    const { logger = silentLogger, indexBytes = defaultIndexBytes } = options;
    this.root = start.root;
    this.formatVersion = start.version;
    this.metadataSize = metadata.size;
    this.#metadata = metadata;
    this.#payload = payload;
    this.#prelude = start.prelude;
    this.#directories = new DirectoryReader(metadata, logger, indexBytes);
  }

  /** Metadata and payload are two streams. */
  get isSplit(): boolean {
    return this.#payload !== undefined;
  }

  /**
   * All members of a directory, in the order of the archive; PBS writes names in the order of their bytes.
   * @throws PbsfsError `unreachable`, `aborted`, …; what is damaged is part of the listing.
   */
  async readDirectory(directory: PxarDirectory, signal?: AbortSignal): Promise<PxarListing> {
    return await this.#within(directory, () => this.#directories.list(directory, signal));
  }

  /**
   * The member of that name, or undefined where there is none.
   * @throws PbsfsError `corrupt`, `chunk-missing` where it, or what leads to it, is damaged; `unreachable`, …
   */
  async lookup(
    directory: PxarDirectory,
    name: Buffer,
    signal?: AbortSignal,
  ): Promise<PxarEntry | undefined> {
    if (whyUnusable(nameKey(name)) !== undefined) return undefined;
    const entry = { name, parent: directory };
    return await this.#within(entry, () => this.#directories.find(directory, name, signal));
  }

  /**
   * The file that a hard link is another name of, under the name of the link.
   * @throws PbsfsError `corrupt` where it leads to no file.
   */
  async resolveHardLink(link: PxarHardLink, signal?: AbortSignal): Promise<PxarFile> {
    return await this.#within(link, async () => {
      const window = new Window(this.#metadata, signal);
      const { targetPosition, position: limit } = link;
      const head = await readHead(window, targetPosition, limit, undefined);
      const target = head && (await readEntry(window, head, limit)).entry;
      if (target?.kind !== 'file') {
        const found = target?.kind ?? 'nothing';
        throw new PbsfsError('corrupt', `a hard link leads to ${found} instead of a file`);
      }
      return target.namedAs(link);
    });
  }

  /** Extended attributes and quota project. @throws PbsfsError `corrupt`, … */
  async readAttributes(
    entry: Exclude<PxarEntry, PxarHardLink>,
    signal?: AbortSignal,
  ): Promise<PxarAttributes> {
    const { attributes, mode } = entry;
    if (attributes === undefined) return { xattrs: [], quotaProjectId: undefined };
    return await this.#within(entry, async () =>
      decodeAttributes(await this.#readBlock(attributes, signal), mode),
    );
  }

  /** Target of a symbolic link. @throws PbsfsError `corrupt`, … */
  async readSymlink(link: PxarSymlink, signal?: AbortSignal): Promise<Buffer> {
    return await this.#within(link, async () =>
      decodeSymlink(await this.#readBlock(link.target, signal)),
    );
  }

  /** What the client noted in a split archive: JSON with its exclude patterns. */
  async readPrelude(signal?: AbortSignal): Promise<Buffer | undefined> {
    if (this.#prelude === undefined) return undefined;
    return await this.#readBlock(this.#prelude, signal);
  }

  /**
   * Where the content of a file lies, once the header there was checked.
   * @throws PbsfsError `corrupt`, also where the payload stream is missing; `chunk-missing`, …
   */
  async locateContent(file: PxarFile, signal?: AbortSignal): Promise<PxarContent> {
    return await this.#within(file, () => locateContent(file, this.#payload, signal));
  }

  /** The content of a file. @throws PbsfsError as `locateContent` does. */
  async openContent(file: PxarFile, signal?: AbortSignal): Promise<ReadAt> {
    const { stream, offset, size } = await this.locateContent(file, signal);
    const source = stream === 'payload' ? this.#payload : this.#metadata;
    // An empty file of an archive without its payload has no bytes, wherever they are not.
    return new Range(source ?? this.#metadata, offset, size);
  }

  /**
   * A pass over `directory` and all below it, in the order of the archive and reading forward. Damage is a step
   * of it; behind damage it goes on where goodbye tables lead.
   * @throws PbsfsError `unreachable`, `aborted`, …
   */
  walk(
    directory: PxarDirectory = this.root,
    signal?: AbortSignal,
  ): AsyncGenerator<PxarStep, void, undefined> {
    const source = rememberDamage(this.#metadata);
    const limit = directory.end ?? this.metadataSize;
    return walkItems(new Window(source, signal), directory, limit, resumeByTables(source, signal));
  }

  async #readBlock({ start, end }: ByteRange, signal?: AbortSignal): Promise<Buffer> {
    if (end - start > maxBlock) {
      throw new PbsfsError('corrupt', `${end - start} bytes where at most ${maxBlock} are taken`);
    }
    return await readExactly(this.#metadata, start, end - start, signal);
  }

  async #within<T>(
    entry: Pick<PxarEntry, 'name' | 'parent'>,
    action: () => Promise<T>,
  ): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw toPbsfsError(error).at({ path: formatPxarPath(entry) });
    }
  }
}
