/** Open files and directories by the number that the kernel sends with each request for them. */
export class HandleTable<T> {
  readonly #open = new Map<number, T>();
  #last = 0;

  add(value: T): number {
    this.#last++;
    this.#open.set(this.#last, value);
    return this.#last;
  }

  get(handle: number): T | undefined {
    return this.#open.get(handle);
  }

  /** Removes and returns it. */
  take(handle: number): T | undefined {
    const value = this.#open.get(handle);
    this.#open.delete(handle);
    return value;
  }

  /** Removes and returns all. */
  takeAll(): T[] {
    const values = [...this.#open.values()];
    this.#open.clear();
    return values;
  }

  get size(): number {
    return this.#open.size;
  }
}
