/**
 * How many names a file has, and how many directories are in one. An archive says neither: a hard link may
 * stand anywhere behind its file. They are counted once, when first asked for:
 *
 *   small metadata          by a pass over it
 *   split archive           by a pass over its metadata, not before a hard link was met
 *   one stream, a catalog   by looking up what the catalog calls a hard link; not before one was met where
 *                           the catalog is large
 *   one stream, no catalog  not at all: a pass would fetch every chunk
 *
 * Before, and where nothing is counted, a file has one name and one more for each hard link that was met.
 * Directories are counted by a pass alone.
 */
import { unlessAborted } from '../../abort.ts';
import { isPbsfsError, PbsfsError } from '../../errors.ts';
import type { PxarDirectory, PxarHardLink } from '../../formats/pxar/entry.ts';
import type { Catalog } from '../catalog.ts';
import { isDamage } from './damage.ts';
import type { PxarArchive } from './pxar-archive.ts';

export interface LinkCountOptions {
  /**
   * The catalog of the snapshot, and the name of this archive in it, such as `root.pxar.didx`. It is no failure
   * where it is missing or damaged.
   */
  readonly catalog?: {
    readonly archive: string;
    readonly open: (signal?: AbortSignal) => Promise<Catalog>;
  };
  /** Bytes of metadata, or of the catalog, that are read without waiting for a hard link. */
  readonly passUpTo?: number;
}

/** Eight chunks, once: about what listing a directory with some large files takes. */
const defaultPassUpTo = 32 * 1024 * 1024;

interface Counts {
  /** Hard links to a file, by its position. */
  readonly links: ReadonlyMap<number, number>;
  /** Directories in a directory, by its position; undefined where they were not counted. */
  readonly directories: ReadonlyMap<number, number> | undefined;
}

export class LinkCounts {
  readonly #archive: PxarArchive;
  #catalog: LinkCountOptions['catalog'];
  readonly #passUpTo: number;
  /** Positions of the hard links met, by that of their file. */
  readonly #met = new Map<number, Set<number>>();
  #counting: Promise<Counts | undefined> | undefined;

  constructor(archive: PxarArchive, options: LinkCountOptions = {}) {
    this.#archive = archive;
    this.#catalog = options.catalog;
    this.#passUpTo = options.passUpTo ?? defaultPassUpTo;
  }

  /** Notes a hard link that a listing or a lookup came across. */
  meet(link: PxarHardLink): void {
    const links = this.#met.get(link.targetPosition) ?? new Set();
    links.add(link.position);
    this.#met.set(link.targetPosition, links);
  }

  /** `st_nlink` of the file at `position`. @throws PbsfsError `unreachable`, `aborted`, … */
  async ofFile(position: number, signal?: AbortSignal): Promise<number> {
    const counts = await this.#counts(signal);
    return 1 + (counts?.links.get(position) ?? this.#met.get(position)?.size ?? 0);
  }

  /**
   * `st_nlink` of a directory: 2 and one for each directory in it, or 1 where those were not counted, which
   * tools understand. @throws PbsfsError `unreachable`, `aborted`, …
   */
  async ofDirectory(position: number, signal?: AbortSignal): Promise<number> {
    const directories = (await this.#counts(signal))?.directories;
    return directories === undefined ? 1 : 2 + (directories.get(position) ?? 0);
  }

  async #counts(signal: AbortSignal | undefined): Promise<Counts | undefined> {
    if (this.#counting === undefined) {
      const count = await this.#way(signal);
      if (count === undefined) return undefined;
      // Shared by all who ask, so that none of them can stop it.
      this.#counting ??= count();
      this.#counting.catch(() => {
        this.#counting = undefined;
      });
    }
    return await unlessAborted(this.#counting, signal);
  }

  /** How to count now; undefined where it would cost too much. */
  async #way(
    signal: AbortSignal | undefined,
  ): Promise<(() => Promise<Counts | undefined>) | undefined> {
    const archive = this.#archive;
    const wasMet = this.#met.size > 0;
    if (archive.metadataSize <= this.#passUpTo || (archive.isSplit && wasMet)) {
      return () => countByPass(archive);
    }
    const source = this.#catalog;
    if (archive.isSplit || source === undefined) return undefined;
    const catalog = await this.#orNoCatalog(() => source.open(signal));
    if (catalog === undefined || (catalog.size > this.#passUpTo && !wasMet)) return undefined;
    return () => this.#orNoCatalog(() => countByCatalog(archive, catalog, source.archive));
  }

  async #orNoCatalog<T>(action: () => Promise<T>): Promise<T | undefined> {
    try {
      return await action();
    } catch (error) {
      if (!isDamage(error) && !isPbsfsError(error, 'not-found')) throw error;
      this.#catalog = undefined;
      return undefined;
    }
  }
}

/** Counts all links and directories of an archive. */
async function countByPass(archive: PxarArchive): Promise<Counts> {
  const links = new Map<number, number>();
  const directories = new Map<number, number>();
  for await (const step of archive.walk()) {
    if (step.step === 'leaf' && step.entry.kind === 'hardlink') {
      increment(links, step.entry.targetPosition);
    } else if (step.step === 'enter' && step.directory.parent !== undefined) {
      increment(directories, step.directory.parent.position);
    }
  }
  return { links, directories };
}

/** Counts the links that the catalog names. What it names and the archive does not have, does not count. */
async function countByCatalog(
  archive: PxarArchive,
  catalog: Catalog,
  archiveName: string,
): Promise<Counts> {
  const links = new Map<number, number>();
  const block = await findBlock(catalog, archiveName);
  let at: { readonly path: readonly Buffer[]; readonly directory: PxarDirectory | undefined } = {
    path: [],
    directory: archive.root,
  };
  for await (const { parents, entry } of catalog.walk(block)) {
    if (entry.kind !== 'hardlink') continue;
    if (at.path !== parents) at = { path: parents, directory: await descend(archive, parents) };
    const link = at.directory && (await archive.lookup(at.directory, entry.name));
    if (link?.kind === 'hardlink') increment(links, link.targetPosition);
  }
  return { links, directories: undefined };
}

async function findBlock(catalog: Catalog, archiveName: string): Promise<number> {
  for await (const { name, block } of catalog.entries(catalog.root)) {
    if (block !== undefined && name.toString() === archiveName) return block;
  }
  throw new PbsfsError('not-found', `the catalog does not list '${archiveName}'`);
}

async function descend(
  archive: PxarArchive,
  path: readonly Buffer[],
): Promise<PxarDirectory | undefined> {
  let directory = archive.root;
  for (const name of path) {
    const entry = await archive.lookup(directory, name);
    if (entry?.kind !== 'directory') return undefined;
    directory = entry;
  }
  return directory;
}

function increment(counts: Map<number, number>, key: number): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
