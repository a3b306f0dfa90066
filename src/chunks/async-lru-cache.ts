/**
 * A cache of what is loaded by name, bounded in bytes, the least recently used going first. However many ask
 * for one key at once, it is loaded once. A failure is shared by those who wait and remembered by nobody.
 *
 * What is in flight lies in a map of its own: inside the package's `fetch()` it would take a slot of the
 * cache, and be evicted, with its waiters, by the next miss.
 */
import { LRUCache } from 'lru-cache';
import { abortError, throwIfAborted } from '../abort.ts';
import { PbsfsError } from '../errors.ts';

export interface AsyncLruCacheOptions<V> {
  /** Bound of all values together, 1 or more. */
  readonly maxBytes: number;
  readonly sizeOf: (value: V) => number;
  /** Told of each value that leaves the cache. */
  readonly onEvict?: (value: V) => void;
}

/** Gives the value of a key. The signal fires when nobody waits for it any more. */
export type Load<V> = (signal: AbortSignal) => Promise<V>;

interface Flight<V> {
  readonly value: Promise<V>;
  readonly controller: AbortController;
  waiting: number;
}

export class AsyncLruCache<V extends object> {
  readonly #values: LRUCache<string, V>;
  readonly #flights = new Map<string, Flight<V>>();

  /** @throws PbsfsError `usage` */
  constructor({ maxBytes, sizeOf, onEvict }: AsyncLruCacheOptions<V>) {
    if (!Number.isSafeInteger(maxBytes) || maxBytes < 1) {
      throw new PbsfsError('usage', `cache is bounded to ${maxBytes} bytes, at least 1 is needed`);
    }
    this.#values = new LRUCache({
      maxSize: maxBytes,
      // A value above the bound counts as the bound: it is kept, alone, so there is always room for one.
      sizeCalculation: (value) => Math.min(Math.max(sizeOf(value), 1), maxBytes),
      ...(onEvict === undefined ? {} : { dispose: onEvict }),
    });
  }

  /** Bytes of all values. */
  get bytes(): number {
    return this.#values.calculatedSize;
  }

  /** The value if it is here, made the most recent. */
  find(key: string): V | undefined {
    return this.#values.get(key);
  }

  /** Whether the value is here or on its way. */
  has(key: string): boolean {
    return this.#values.has(key) || this.#flights.has(key);
  }

  /** The value if it is here, without a load and without making it more recent. */
  peek(key: string): V | undefined {
    return this.#values.peek(key);
  }

  /** Forgets the value if it is here. */
  delete(key: string): void {
    this.#values.delete(key);
  }

  /**
   * The value of `key`, loaded where it is absent. The signal lets this caller go at once; the load itself is
   * stopped when the last one who waited for it has gone.
   * @throws PbsfsError `aborted`, `timeout`, and whatever `load` throws.
   */
  async get(key: string, load: Load<V>, signal?: AbortSignal): Promise<V> {
    const cached = this.#values.get(key);
    if (cached !== undefined) return cached;
    throwIfAborted(signal);
    const flight = this.#flights.get(key) ?? this.#start(key, load);
    return this.#join(key, flight, signal);
  }

  /** Forgets everything. Loads in flight end for those who wait and are not remembered. */
  clear(): void {
    this.#values.clear();
    this.#flights.clear();
  }

  #start(key: string, load: Load<V>): Flight<V> {
    const controller = new AbortController();
    const flight = { controller, waiting: 0, value: this.#load(key, load, controller) };
    // Those who wait get a failure; when all of them have left, nobody wants it.
    flight.value.catch(() => {});
    this.#flights.set(key, flight);
    return flight;
  }

  async #load(key: string, load: Load<V>, controller: AbortController): Promise<V> {
    await undefined; // not before the flight is in its map
    try {
      const value = await load(controller.signal);
      if (this.#isCurrent(key, controller)) this.#values.set(key, value);
      return value;
    } finally {
      if (this.#isCurrent(key, controller)) this.#flights.delete(key);
    }
  }

  /** False once the flight was cleared or abandoned: another may have taken its place. */
  #isCurrent(key: string, controller: AbortController): boolean {
    return this.#flights.get(key)?.controller === controller;
  }

  #join(key: string, flight: Flight<V>, signal: AbortSignal | undefined): Promise<V> {
    flight.waiting++;
    if (signal === undefined) return flight.value;
    return new Promise<V>((resolve, reject) => {
      const leave = () => {
        reject(abortError(signal));
        flight.waiting--;
        if (flight.waiting > 0) return;
        if (this.#isCurrent(key, flight.controller)) this.#flights.delete(key);
        flight.controller.abort();
      };
      signal.addEventListener('abort', leave, { once: true });
      flight.value.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
    });
  }
}
