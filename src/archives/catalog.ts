/**
 * The catalog of a snapshot, opened: its directories are read block by block, at the offsets that their
 * parents tell. Anything that does not fit the format is `corrupt`, so that a caller can turn to the archive;
 * some writers put another layout under the same magic.
 */
import { PbsfsError } from '../errors.ts';
import {
  type CatalogEntry,
  CatalogReader,
  catalogMagic,
  catalogTrailerSize,
  decodeCatalogTrailer,
  maxCatalogEntrySize,
} from '../formats/catalog.ts';
import { type ReadAt, readExactly } from '../read-at.ts';

/** An entry with the names that lead to it; the first is the archive, such as `root.pxar.didx`. */
export interface CatalogItem {
  readonly parents: readonly Buffer[];
  readonly entry: CatalogEntry;
}

/** Bytes of a block that are read at once. */
const readSize = 64 * 1024;

/** @throws PbsfsError `corrupt` where it is no catalog, and whatever the source throws. */
export async function openCatalog(source: ReadAt, signal?: AbortSignal): Promise<Catalog> {
  const end = source.size - catalogTrailerSize;
  if (end < catalogMagic.length) {
    throw new PbsfsError('corrupt', `a catalog cannot have ${source.size} bytes`);
  }
  const magic = await readExactly(source, 0, catalogMagic.length, signal);
  if (!magic.equals(catalogMagic)) {
    throw new PbsfsError('corrupt', `not a catalog: unknown magic ${magic.toString('hex')}`);
  }
  const trailer = await readExactly(source, end, catalogTrailerSize, signal);
  return new Catalog(source, decodeCatalogTrailer(trailer));
}

export class Catalog {
  readonly size: number;
  /** Block of the root: pass it to `entries`. */
  readonly root: number;
  readonly #source: ReadAt;
  /** Where the last block ends. */
  readonly #end: number;

  constructor(source: ReadAt, root: number) {
    this.#source = source;
    this.size = source.size;
    this.root = root;
    this.#end = source.size - catalogTrailerSize;
  }

  /**
   * The entries of the directory whose block is at `block`, in the order of the archive.
   * @throws PbsfsError `corrupt`, and whatever the source throws.
   */
  async *entries(block: number, signal?: AbortSignal): AsyncGenerator<CatalogEntry> {
    const head = await this.#reader(block, this.#end, signal);
    const tableSize = head.unsigned('size of a directory');
    let at = block + head.consumed;
    const end = at + tableSize;
    // The root is written last; another layout, read as this one, seldom ends there.
    if (block === this.root ? end !== this.#end : end > this.#end) {
      throw new PbsfsError(
        'corrupt',
        `a directory of ${tableSize} bytes at ${block} in the catalog`,
      );
    }
    let reader = await this.#reader(at, end, signal);
    const count = reader.unsigned('entries of a directory');
    for (let i = 0; i < count; i++) {
      if (readSize - reader.consumed < maxCatalogEntrySize) {
        at += reader.consumed;
        reader = await this.#reader(at, end, signal);
      }
      yield reader.entry(block);
    }
    if (at + reader.consumed !== end) {
      throw new PbsfsError('corrupt', 'a directory in the catalog is longer than its entries');
    }
  }

  /**
   * Everything below a block, parents before children, in the order of the archive.
   * @throws PbsfsError `corrupt`, and whatever the source throws.
   */
  async *walk(block: number = this.root, signal?: AbortSignal): AsyncGenerator<CatalogItem> {
    // Each byte belongs to one directory: what visits more entries than that goes in circles. Every entry
    // has 2 bytes at least.
    let left = this.size / 2;
    const open = [{ entries: this.entries(block, signal), parents: [] as readonly Buffer[] }];
    for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
      const next = await top.entries.next();
      if (next.done) {
        open.pop();
        continue;
      }
      const { parents } = top;
      const entry = next.value;
      if (left-- <= 0) throw new PbsfsError('corrupt', 'directories of the catalog overlap');
      yield { parents, entry };
      if (entry.block === undefined) continue;
      open.push({ entries: this.entries(entry.block, signal), parents: [...parents, entry.name] });
    }
  }

  async #reader(
    position: number,
    end: number,
    signal: AbortSignal | undefined,
  ): Promise<CatalogReader> {
    const length = Math.min(readSize, end - position);
    if (position < catalogMagic.length || length < 0) {
      throw new PbsfsError('corrupt', `no directory can lie at ${position} in the catalog`);
    }
    return new CatalogReader(await readExactly(this.#source, position, length, signal));
  }
}
