/**
 * Key bytes that do not leak by accident: a private field, so that `console.log`, `util.inspect`,
 * `JSON.stringify` and assertion messages show nothing of them.
 */
export class Secret {
  readonly #bytes: Buffer;

  /** Keeps its own copy of `bytes`. */
  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes);
  }

  /** The bytes themselves; the caller neither prints nor changes them. */
  reveal(): Buffer {
    return this.#bytes;
  }
}
