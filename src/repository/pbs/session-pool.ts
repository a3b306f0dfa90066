/**
 * The reader sessions that are open: one per snapshot, shared by all its archives, made when a chunk is needed
 * and closed after some minutes without use, since an open session locks its snapshot against pruning. At most
 * a few are open at once; the one that was not used for the longest time goes first, as soon as nobody is
 * using it.
 *
 * Who uses a session sees nothing of this: the next use finds one again.
 */
import { unlessAborted } from '../../abort.ts';
import { PbsfsError } from '../../errors.ts';
import { formatSnapshot, type SnapshotId } from '../../formats/snapshot-path.ts';
import { createTrace } from '../../log.ts';
import type { ReaderSession } from './reader-session.ts';

const trace = createTrace('pbs');

export interface SessionPoolOptions {
  readonly open: (snapshot: SnapshotId) => Promise<ReaderSession>;
  /** Sessions open at once, 1 or more. */
  readonly maxSessions: number;
  /** Milliseconds without use after which a session is closed. */
  readonly idleTimeout: number;
}

interface Slot {
  readonly session: Promise<ReaderSession>;
  /** Set when it is open. */
  opened: ReaderSession | undefined;
  /** Uses that are going on. */
  users: number;
  lastUsed: number;
  /** Out of the pool: it ends with its last user. */
  isLeaving: boolean;
}

export class SessionPool implements Disposable {
  readonly #options: SessionPoolOptions;
  /** Those that take new users, by snapshot. */
  readonly #slots = new Map<string, Slot>();
  /** All whose session is open or being opened. */
  readonly #open = new Set<Slot>();
  readonly #sweeper: NodeJS.Timeout;
  #isClosed = false;

  constructor(options: SessionPoolOptions) {
    this.#options = options;
    // Some rounds per timeout make it exact enough.
    this.#sweeper = setInterval(() => this.#closeIdle(), options.idleTimeout / 4).unref();
  }

  /**
   * Runs `action` with a session of the snapshot, opened where there is none.
   * @throws PbsfsError as `open` and `action`; `aborted`
   */
  async use<T>(
    snapshot: SnapshotId,
    action: (session: ReaderSession) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    if (this.#isClosed) throw new PbsfsError('aborted', 'the repository was closed');
    const key = formatSnapshot(snapshot);
    const known = this.#slots.get(key);
    const isUsable = known !== undefined && (known.opened?.isUsable ?? true);
    const slot = isUsable ? known : this.#start(key, snapshot);
    slot.users += 1;
    try {
      return await action(await unlessAborted(slot.session, signal));
    } finally {
      slot.users -= 1;
      slot.lastUsed = performance.now();
      this.#endIfUnused(slot);
    }
  }

  /** Ends all of them at once. */
  [Symbol.dispose](): void {
    this.#isClosed = true;
    clearInterval(this.#sweeper);
    this.#slots.clear();
    for (const { opened } of this.#open) opened?.[Symbol.dispose]();
  }

  #start(key: string, snapshot: SnapshotId): Slot {
    const slot: Slot = {
      session: this.#options.open(snapshot),
      opened: undefined,
      users: 0,
      lastUsed: performance.now(),
      isLeaving: false,
    };
    const forget = () => {
      this.#open.delete(slot);
      if (this.#slots.get(key) === slot) this.#slots.delete(key);
    };
    slot.session.then((session) => {
      trace('session for %s opened', key);
      slot.opened = session;
      session.onEnd = forget;
      // It may have ended before anybody listened.
      if (!session.isUsable) forget();
      if (this.#isClosed) session[Symbol.dispose]();
      else this.#endIfUnused(slot);
    }, forget);
    this.#slots.delete(key);
    this.#makeRoom();
    this.#slots.set(key, slot);
    this.#open.add(slot);
    return slot;
  }

  #makeRoom(): void {
    while (this.#slots.size >= this.#options.maxSessions) {
      const byUse = [...this.#slots].sort(([, a], [, b]) => a.lastUsed - b.lastUsed);
      const [key, slot] = byUse.find(([, { users }]) => users === 0) ?? byUse[0] ?? [];
      if (key === undefined || slot === undefined) return;
      this.#leave(key, slot);
    }
  }

  #closeIdle(): void {
    const limit = performance.now() - this.#options.idleTimeout;
    for (const [key, slot] of this.#slots) {
      if (slot.users === 0 && slot.lastUsed <= limit) this.#leave(key, slot);
    }
  }

  #leave(key: string, slot: Slot): void {
    trace('session for %s leaves', key);
    this.#slots.delete(key);
    slot.isLeaving = true;
    this.#endIfUnused(slot);
  }

  #endIfUnused(slot: Slot): void {
    if (slot.isLeaving && slot.users === 0) slot.opened?.[Symbol.dispose]();
  }
}
