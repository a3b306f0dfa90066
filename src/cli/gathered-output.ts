/** Standard output for many short lines: they go out together, but none waits for the next one to be found. */
import { writeOut } from './output.ts';

/** More than that is written at once, and waited for. */
const gatherCharacters = 64 * 1024;

export class GatheredOutput {
  #parts: (string | Uint8Array)[] = [];
  #length = 0;
  #writing: Promise<void> = Promise.resolve();
  #isScheduled = false;

  /** @throws OutputClosed, PbsfsError, of this or an earlier write. */
  async write(part: string | Uint8Array): Promise<void> {
    this.#parts.push(part);
    this.#length += part.length;
    if (this.#length >= gatherCharacters) await this.flush();
    else this.#schedule();
  }

  /** Waits until everything is written. */
  async flush(): Promise<void> {
    const parts = this.#parts;
    this.#parts = [];
    this.#length = 0;
    const bytes = Buffer.concat(parts.map((part) => Buffer.from(part as string)));
    if (bytes.length > 0) this.#writing = this.#writing.then(() => writeOut(bytes));
    await this.#writing;
  }

  /** When the search waits for something, what it has found so far is shown. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      // The failure stays in `#writing` for whoever writes next.
      this.flush().catch(() => {});
    });
  }
}
