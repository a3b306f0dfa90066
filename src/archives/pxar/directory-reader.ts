/**
 * Finds and lists the members of directories by their goodbye tables. Where a table is broken (foreign
 * writers, damage) a pass over that directory takes its place, with one warning. Both are remembered, within
 * a bound.
 */
import { AsyncLruCache } from '../../chunks/async-lru-cache.ts';
import { nameKey, type PxarDirectory, type PxarEntry } from '../../formats/pxar/entry.ts';
import type { GoodbyeTable } from '../../formats/pxar/goodbye.ts';
import { sipHash } from '../../formats/pxar/sip-hash.ts';
import type { Logger } from '../../log.ts';
import type { ReadAt } from '../../read-at.ts';
import { isDamage, isUnreadable } from './damage.ts';
import { listMembers } from './list-members.ts';
import { formatPxarPath } from './pxar-path.ts';
import {
  type PxarListing,
  readTable,
  type ScannedDirectory,
  scanDirectory,
} from './read-directory.ts';
import { readEntry, readHead } from './read-entry.ts';
import { rememberDamage } from './remember-damage.ts';
import { Window } from './window.ts';

/** What a remembered entry takes, about: for the bound of the cache. */
const bytesPerEntry = 500;
/** Warnings about one archive: what comes behind is more of the same. */
const maxWarnings = 100;

/** A goodbye table, and what came to light about it. */
interface TableState {
  /** Undefined once it is known to be broken. */
  table: GoodbyeTable | undefined;
  /** One of its hashes was seen to be that of the name. */
  isVerified: boolean;
}

export class DirectoryReader {
  readonly #source: ReadAt;
  readonly #logger: Logger;
  readonly #tables: AsyncLruCache<TableState>;
  readonly #scans: AsyncLruCache<ScannedDirectory>;
  /** Directories, by position, that a warning was given for. */
  readonly #warned = new Set<number>();

  /** @param indexBytes bound of what is remembered. */
  constructor(source: ReadAt, logger: Logger, indexBytes: number) {
    this.#source = source;
    this.#logger = logger;
    this.#tables = new AsyncLruCache({
      maxBytes: indexBytes,
      sizeOf: ({ table }) => table?.byteLength ?? 1,
    });
    this.#scans = new AsyncLruCache({
      maxBytes: indexBytes,
      sizeOf: ({ listing }) => listing.members.length * bytesPerEntry,
    });
  }

  /** All members. @throws PbsfsError `unreachable`, `aborted`, …; damage is part of the listing. */
  async list(directory: PxarDirectory, signal?: AbortSignal): Promise<PxarListing> {
    const state = await this.#state(directory, signal);
    const listing =
      (await this.#listByTable(directory, state, signal)) ??
      (await this.#scan(directory, signal)).listing;
    const unusable = listing.damaged.find(({ error }) => error.code === 'unsupported');
    if (unusable !== undefined) this.#warn(directory, unusable.error.message);
    return listing;
  }

  /**
   * The member of that name, or undefined where there is none.
   * @throws PbsfsError `corrupt`, `chunk-missing` where damage may hide it; `unreachable`, `aborted`, …
   */
  async find(
    directory: PxarDirectory,
    name: Buffer,
    signal?: AbortSignal,
  ): Promise<PxarEntry | undefined> {
    const state = await this.#state(directory, signal);
    const found = await this.#findByTable(directory, state, name, signal);
    if (found !== undefined) return found.entry;
    const { byName, listing } = await this.#scan(directory, signal);
    const entry = byName.get(nameKey(name));
    const damage = listing.damaged.find(
      (one) => isDamage(one.error) && (one.name === undefined || one.name.equals(name)),
    );
    if (entry === undefined && damage !== undefined) throw damage.error;
    return entry;
  }

  /** Undefined where the table is broken. */
  async #listByTable(
    directory: PxarDirectory,
    state: TableState,
    signal: AbortSignal | undefined,
  ): Promise<PxarListing | undefined> {
    if (state.table === undefined) return undefined;
    const listing = await listMembers(rememberDamage(this.#source), directory, state.table, signal);
    if (listing === undefined) this.#giveUp(directory, state, 'points at no member');
    return listing;
  }

  /** Undefined where the table is broken. */
  async #findByTable(
    directory: PxarDirectory,
    state: TableState,
    name: Buffer,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly entry: PxarEntry | undefined } | undefined> {
    const { table } = state;
    if (table === undefined) return undefined;
    const window = new Window(this.#source, signal);
    for (const position of table.find(sipHash(name))) {
      const end = table.memberEnd(position);
      const head = await readHead(window, position, end, directory);
      if (head === undefined) {
        this.#giveUp(directory, state, 'points at no member');
        return undefined;
      }
      if (!head.name.equals(name)) continue;
      state.isVerified = true;
      return { entry: (await readEntry(window, head, end, end)).entry };
    }
    // Absent, unless the hashes are none of ours: one look at the first member tells, once.
    state.isVerified ||= await this.#usesOurHash(window, directory, table);
    if (state.isVerified) return { entry: undefined };
    this.#giveUp(directory, state, 'has hashes that are not those of the names');
    return undefined;
  }

  async #usesOurHash(
    window: Window,
    directory: PxarDirectory,
    table: GoodbyeTable,
  ): Promise<boolean> {
    const first = table.positions.at(0);
    if (first === undefined) return true;
    const head = await readHead(window, first, table.memberEnd(first), directory);
    return head !== undefined && table.find(sipHash(head.name)).includes(first);
  }

  async #state(directory: PxarDirectory, signal?: AbortSignal): Promise<TableState> {
    try {
      return await this.#tables.get(
        String(directory.position),
        (loadSignal) => this.#loadState(directory, loadSignal),
        signal,
      );
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.#warn(directory, `its goodbye table cannot be read: ${error.message}`);
      return { table: undefined, isVerified: false };
    }
  }

  /** That a table is broken is remembered; that it cannot be read is thrown, and so tried again. */
  async #loadState(directory: PxarDirectory, signal: AbortSignal): Promise<TableState> {
    try {
      const table = await readTable(this.#source, directory, signal);
      if (!table.isOrdered) this.#warn(directory, 'its goodbye table is not in search order');
      return { table, isVerified: false };
    } catch (error) {
      if (!isDamage(error) || isUnreadable(error)) throw error;
      this.#warn(directory, `its goodbye table is broken: ${error.message}`);
      return { table: undefined, isVerified: false };
    }
  }

  async #scan(directory: PxarDirectory, signal?: AbortSignal): Promise<ScannedDirectory> {
    const key = String(directory.position);
    const known = this.#scans.peek(key);
    if (known !== undefined) return known;
    const scanned = await scanDirectory(rememberDamage(this.#source), directory, signal);
    if (scanned.listing.damaged.some(({ error }) => isUnreadable(error))) return scanned;
    return await this.#scans.get(key, async () => scanned, signal);
  }

  #giveUp(directory: PxarDirectory, state: TableState, why: string): void {
    state.table = undefined;
    this.#warn(directory, `its goodbye table ${why}`);
  }

  #warn(directory: PxarDirectory, what: string): void {
    if (this.#warned.has(directory.position) || this.#warned.size >= maxWarnings) return;
    this.#warned.add(directory.position);
    this.#logger('warn', `directory '${formatPxarPath(directory)}': ${what}`);
  }
}
