/**
 * The bytes of one cached chunk, and who uses them. When it leaves the cache its memory is freed at once, or as
 * soon as all who have borrowed it gave it back. Left to the garbage collector, chunks pile up, and make it run
 * so often that it takes a third of the processor time of a sequential read.
 *
 * Who does not give back, and who takes the bytes for good, only leaves the memory to the collector after all.
 * Freed memory is detached from its buffer: a view that is used too late has no bytes, never other ones.
 */
import { encryptedHeaderSize } from '../formats/data-blob.ts';

/** Small ones are not worth it, and may lie in memory that Node shares between buffers. */
const minLength = 64 * 1024;

export class ChunkMemory {
  readonly #bytes: Buffer;
  #borrowers = 0;
  #isTaken = false;
  #isEvicted = false;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get length(): number {
    return this.#bytes.length;
  }

  /** The bytes, for as long as the caller likes. */
  take(): Buffer {
    this.#isTaken = true;
    return this.#bytes;
  }

  /** The bytes until `giveBack`. */
  borrow(): Buffer {
    this.#borrowers++;
    return this.#bytes;
  }

  giveBack(): void {
    this.#borrowers--;
    if (this.#isEvicted) this.#free();
  }

  /** The cache has dropped it. */
  evict(): void {
    this.#isEvicted = true;
    // Not now: somebody may have been given this object in the same turn, and is about to use it.
    setImmediate(() => this.#free());
  }

  #free(): void {
    if (this.#isTaken || this.#borrowers > 0) return;
    const { buffer, length } = this.#bytes;
    // A chunk that is stored plain lies behind its header.
    const isAlone = buffer.byteLength - length <= encryptedHeaderSize;
    if (length >= minLength && isAlone && buffer instanceof ArrayBuffer) buffer.transfer(0);
  }
}
