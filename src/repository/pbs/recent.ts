/**
 * Remembers the last few results by key for a short time, and loads one only once, however many ask at the
 * same time. A failure is not remembered.
 */

interface Entry<V> {
  readonly value: Promise<V>;
  /** When it was loaded; infinity while that goes on. */
  loadedAt: number;
}

export class Recent<V> {
  readonly #capacity: number;
  readonly #entries = new Map<string, Entry<V>>();

  /** @param capacity results that are kept, the oldest going first. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** @param maxAge milliseconds; 0 joins only a load that is going on. */
  get(key: string, maxAge: number, load: () => Promise<V>): Promise<V> {
    const known = this.#entries.get(key);
    if (known !== undefined && performance.now() - known.loadedAt < maxAge) return known.value;
    if (known?.loadedAt === Number.POSITIVE_INFINITY) return known.value;
    const entry: Entry<V> = { value: load(), loadedAt: Number.POSITIVE_INFINITY };
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    entry.value.then(
      () => {
        entry.loadedAt = performance.now();
      },
      () => {
        if (this.#entries.get(key) === entry) this.#entries.delete(key);
      },
    );
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > this.#capacity && oldest !== undefined) this.#entries.delete(oldest);
    return entry.value;
  }
}
