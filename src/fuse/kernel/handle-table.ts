/**
 * Open files and directories by the number that the kernel sends with each request for them; 0 is never one.
 *
 * No `Map`: V8 gives one a new table after every few entries that come and go, and a table that has grown old keeps
 * all later ones alive until the next full collection, half a kilobyte for each small file that is opened.
 */
export class HandleTable<T> {
  readonly #values: (T | undefined)[] = [undefined];
  readonly #free: number[] = [];

  add(value: T): number {
    const handle = this.#free.pop() ?? this.#values.length;
    this.#values[handle] = value;
    return handle;
  }

  get(handle: number): T | undefined {
    return this.#values[handle];
  }

  /** Removes and returns it. */
  take(handle: number): T | undefined {
    const value = this.#values[handle];
    if (value === undefined) return undefined;
    this.#values[handle] = undefined;
    this.#free.push(handle);
    return value;
  }

  /** Removes and returns all. */
  takeAll(): T[] {
    const values = this.#values.splice(1).filter((value) => value !== undefined);
    this.#free.length = 0;
    return values;
  }

  get size(): number {
    return this.#values.length - 1 - this.#free.length;
  }
}
