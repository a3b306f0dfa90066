/** Where a stream goes: standard output, a file, a list in memory. */

/** Takes bytes in order and waits until they are taken. It may keep them after it has returned. */
export interface Sink {
  write(bytes: Uint8Array): Promise<void>;
}

/** Gathered before they are written: most headers and small files need no call of their own. */
const gatherBytes = 256 * 1024;

/** Writes many small pieces as few large ones. */
export class GatheringSink implements Sink {
  readonly #sink: Sink;
  #pieces: Uint8Array[] = [];
  #length = 0;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#pieces.push(bytes);
    this.#length += bytes.length;
    if (this.#length >= gatherBytes) await this.flush();
  }

  /** To be called behind the last piece. */
  async flush(): Promise<void> {
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#length = 0;
    // A large piece is not copied.
    const small: Uint8Array[] = [];
    for (const piece of pieces) {
      if (piece.length < gatherBytes) {
        small.push(piece);
        continue;
      }
      await this.#writeAll(small.splice(0));
      await this.#sink.write(piece);
    }
    await this.#writeAll(small);
  }

  async #writeAll(pieces: readonly Uint8Array[]): Promise<void> {
    if (pieces.length > 0) await this.#sink.write(Buffer.concat(pieces));
  }
}
