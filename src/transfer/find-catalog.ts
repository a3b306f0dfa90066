/** The catalog of a snapshot, as a search uses it: found by the names in the tree, and never needed. */
import { type Catalog, openCatalog } from '../archives/catalog.ts';
import { isPbsfsError } from '../errors.ts';
import { catalogName, displayName } from '../formats/archive-name.ts';
import type { OpenFile } from '../tree/node.ts';
import type { SnapshotDirectory } from '../tree/snapshot-directory.ts';

/** A directory in a catalog. */
export interface CatalogPlace {
  readonly catalog: Catalog;
  readonly block: number;
}

export class SnapshotCatalog implements AsyncDisposable {
  readonly #file: OpenFile;
  readonly #catalog: Catalog;

  private constructor(file: OpenFile, catalog: Catalog) {
    this.#file = file;
    this.#catalog = catalog;
  }

  /** Undefined where the snapshot has none, or none that can be read. */
  static async open(
    snapshot: SnapshotDirectory,
    signal?: AbortSignal,
  ): Promise<SnapshotCatalog | undefined> {
    return await unlessUnusable(async () => {
      const node = await snapshot.lookup(Buffer.from(displayName(catalogName)), signal);
      if (node?.kind !== 'file') return undefined;
      const file = await node.open(signal);
      try {
        return new SnapshotCatalog(file, await openCatalog(file, signal));
      } catch (error) {
        await file[Symbol.asyncDispose]();
        throw error;
      }
    });
  }

  /** The directory at a path below the snapshot, archive first; undefined where it is not listed. */
  async find(path: readonly Buffer[], signal?: AbortSignal): Promise<CatalogPlace | undefined> {
    const [archive, ...names] = path;
    if (archive === undefined) return undefined;
    const stored = Buffer.concat([archive, Buffer.from('.didx')]);
    return await unlessUnusable(async () => {
      let block: number | undefined = this.#catalog.root;
      for (const name of [stored, ...names]) {
        if (block === undefined) return undefined;
        block = await this.#child(block, name, signal);
      }
      return block === undefined ? undefined : { catalog: this.#catalog, block };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file[Symbol.asyncDispose]();
  }

  async #child(block: number, name: Buffer, signal?: AbortSignal): Promise<number | undefined> {
    for await (const entry of this.#catalog.entries(block, signal)) {
      if (entry.name.equals(name)) return entry.block;
    }
    return undefined;
  }
}

/** What is wrong with a catalog says nothing of the archives: they are searched themselves then. */
async function unlessUnusable<T>(action: () => Promise<T | undefined>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (isPbsfsError(error, 'corrupt', 'chunk-missing', 'key-missing', 'key-wrong', 'not-found')) {
      return undefined;
    }
    throw error;
  }
}
