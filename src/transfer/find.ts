/**
 * Searches the tree: a directory, a snapshot, all snapshots of a group, or everything. A pxar archive that the catalog
 * of its snapshot lists is searched there, which takes a few chunks instead of all; the archive is asked only for what
 * the catalog does not hold: the time of what is no file, and everything about a hard link.
 */
import type { CatalogItem } from '../archives/catalog.ts';
import { type PbsfsError, toPbsfsError } from '../errors.ts';
import type { Directory, Node } from '../tree/node.ts';
import { SnapshotDirectory } from '../tree/snapshot-directory.ts';
import { type CatalogPlace, SnapshotCatalog } from './find-catalog.ts';
import { type FindQuery, type FoundDetails, matchesDetails, matchesName } from './find-query.ts';
import { isFatal, walkTree } from './walk.ts';

export interface Found extends FoundDetails {
  /** Names from the root of the tree. */
  readonly path: readonly Buffer[];
  readonly kind: Node['kind'];
  /** Names up to the snapshot that it lies in, that one included; 0 outside of any. */
  readonly snapshotDepth: number;
}

export interface FindOptions {
  readonly signal?: AbortSignal;
  /** What cannot be searched; the search goes on beside it. */
  readonly onError: (path: readonly Buffer[], error: PbsfsError) => void;
}

/**
 * Everything at and below a path that meets the query, in the order of the tree.
 * @param root of the whole tree.
 * @param start names below it, of something that is there.
 * @throws PbsfsError `unreachable`, `aborted`, …
 */
export async function* findEntries(
  root: Directory,
  start: readonly Buffer[],
  query: FindQuery,
  options: FindOptions,
): AsyncGenerator<Found, void, undefined> {
  const finder = new Finder(query, options);
  try {
    yield* finder.run(root, start);
  } finally {
    await finder[Symbol.asyncDispose]();
  }
}

interface Snapshot {
  readonly node: SnapshotDirectory;
  /** Names up to it, its own included. */
  readonly depth: number;
  /** Opened when it is needed. */
  catalog: Promise<SnapshotCatalog | undefined> | undefined;
}

class Finder implements AsyncDisposable {
  readonly #query: FindQuery;
  readonly #options: FindOptions;
  /** The snapshot that is being searched. */
  #snapshot: Snapshot | undefined;
  /** What a catalog gave before it turned out to be broken. */
  #given: ReadonlySet<string> = new Set();

  constructor(query: FindQuery, options: FindOptions) {
    this.#query = query;
    this.#options = options;
  }

  async *run(root: Directory, start: readonly Buffer[]): AsyncGenerator<Found> {
    const node = await this.#locate(root, start);
    if (node.kind !== 'directory') {
      yield* this.#checkNode(start, node);
      return;
    }
    const { signal, onError } = this.#options;
    /** Directories that a catalog was searched in place of. */
    const searched = new Set<Node>();
    const walk = walkTree(node, {
      ...(signal === undefined ? {} : { signal }),
      onError: (path, error) => onError([...start, ...path], error),
      descend: (entry) => !searched.delete(entry.node),
    });
    for await (const entry of walk) {
      const path = [...start, ...entry.path];
      await this.#enter(path, entry.node);
      yield* this.#checkNode(path, entry.node);
      if (entry.node.kind !== 'directory') continue;
      const place = await this.#inCatalog(path, entry.path.length === 0);
      if (place === undefined) continue;
      const isWhole = yield* this.#searchCatalog(place, path, entry.node);
      if (isWhole) searched.add(entry.node);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const catalog = await this.#snapshot?.catalog;
    await catalog?.[Symbol.asyncDispose]();
  }

  /** The node at a path, entering the snapshot that it lies in. */
  async #locate(root: Directory, path: readonly Buffer[]): Promise<Node> {
    let node: Node = root;
    for (const [index, name] of path.entries()) {
      const child: Node | undefined = await this.#descend(node, [name]);
      if (child === undefined) break;
      node = child;
      await this.#enter(path.slice(0, index + 1), node);
    }
    return node;
  }

  /** Notes when the walk comes into a snapshot, or out of one. */
  async #enter(path: readonly Buffer[], node: Node): Promise<void> {
    if (path.length > (this.#snapshot?.depth ?? 0) && !(node instanceof SnapshotDirectory)) return;
    const catalog = await this.#snapshot?.catalog;
    await catalog?.[Symbol.asyncDispose]();
    this.#snapshot =
      node instanceof SnapshotDirectory
        ? { node, depth: path.length, catalog: undefined }
        : undefined;
  }

  /** An archive, or the start of the walk within one, where the catalog lists it. */
  async #inCatalog(path: readonly Buffer[], isStart: boolean): Promise<CatalogPlace | undefined> {
    const snapshot = this.#snapshot;
    const { signal } = this.#options;
    const depth = snapshot?.depth ?? 0;
    if (snapshot === undefined || path.length <= depth) return undefined;
    if (!isStart && path.length > depth + 1) return undefined;
    snapshot.catalog ??= SnapshotCatalog.open(snapshot.node, signal);
    return await (await snapshot.catalog)?.find(path.slice(depth), signal);
  }

  /** @returns false where the catalog is broken, and the archive itself has to be searched. */
  async *#searchCatalog(
    { catalog, block }: CatalogPlace,
    path: readonly Buffer[],
    directory: Directory,
  ): AsyncGenerator<Found, boolean, undefined> {
    const given = new Set<string>();
    try {
      for await (const item of catalog.walk(block, this.#options.signal)) {
        for await (const found of this.#checkItem(item, path, directory)) {
          given.add(keyOf(found.path));
          yield found;
        }
      }
      return true;
    } catch (error) {
      if (isFatal(error)) throw error;
      this.#given = given;
      return false;
    }
  }

  async *#checkItem(
    { parents, entry }: CatalogItem,
    path: readonly Buffer[],
    directory: Directory,
  ): AsyncGenerator<Found> {
    const { kind, name, size, mtime } = entry;
    if (!matchesName(this.#query, name, kind === 'hardlink' ? 'file' : kind)) return;
    const fullPath = [...path, ...parents, name];
    if (kind === 'file' && mtime !== undefined) {
      yield* this.#check(fullPath, kind, { size, mtime: { seconds: mtime, nanos: 0 } });
      return;
    }
    const node = await this.#attempt(fullPath, () => this.#descend(directory, [...parents, name]));
    if (node !== undefined) yield* this.#checkNode(fullPath, node);
  }

  async #descend(start: Node, names: readonly Buffer[]): Promise<Node | undefined> {
    let node: Node | undefined = start;
    for (const name of names) {
      if (node?.kind !== 'directory') return undefined;
      node = await node.lookup(name, this.#options.signal);
    }
    return node;
  }

  async *#checkNode(path: readonly Buffer[], node: Node): AsyncGenerator<Found> {
    const name = path.at(-1);
    if (name === undefined || !matchesName(this.#query, name, node.kind)) return;
    const attributes = await this.#attempt(path, () => node.attributes(this.#options.signal));
    if (attributes === undefined) return;
    const { size, mtime } = attributes;
    yield* this.#check(path, node.kind, { size: node.kind === 'file' ? size : undefined, mtime });
  }

  *#check(path: readonly Buffer[], kind: Node['kind'], details: FoundDetails): Generator<Found> {
    if (!matchesDetails(this.#query, details)) return;
    if (this.#given.size > 0 && this.#given.has(keyOf(path))) return;
    yield { path, kind, snapshotDepth: this.#snapshot?.depth ?? 0, ...details };
  }

  /** Undefined, and told, where it fails and the rest need not. */
  async #attempt<T>(
    path: readonly Buffer[],
    action: () => Promise<T | undefined>,
  ): Promise<T | undefined> {
    try {
      return await action();
    } catch (error) {
      if (isFatal(error)) throw error;
      this.#options.onError(path, toPbsfsError(error));
      return undefined;
    }
  }
}

/**
 * Of each path in the snapshots of a group, those versions that differ from the one given before: in kind, size or
 * time. Times count in seconds, as catalogs have them; what was changed within the same second and to the same size
 * looks unchanged.
 */
export async function* onlyVersions(found: AsyncIterable<Found>): AsyncGenerator<Found> {
  let group = '';
  const versions = new Map<string, string>();
  for await (const entry of found) {
    const { path, snapshotDepth, kind, size, mtime } = entry;
    // Outside of snapshots there is one version of everything.
    if (snapshotDepth === 0) {
      yield entry;
      continue;
    }
    const entryGroup = keyOf(path.slice(0, snapshotDepth - 1));
    if (entryGroup !== group) versions.clear();
    group = entryGroup;
    const version = `${kind} ${size} ${mtime.seconds}`;
    const key = keyOf(path.slice(snapshotDepth));
    if (versions.get(key) === version) continue;
    versions.set(key, version);
    yield entry;
  }
}

function keyOf(path: readonly Buffer[]): string {
  return path.map((name) => name.toString('latin1')).join('/');
}
