/**
 * How far a long job has come: one line that rewrites itself on a terminal, a line now and then where it was asked for
 * without one. Goes to standard error.
 */

/** A terminal shows ten a second at most; elsewhere each is a line that stays. */
const terminalMilliseconds = 100;
const plainMilliseconds = 5000;
const eraseLine = '\r\x1b[K';

export class ProgressLine implements Disposable {
  readonly #isShown: boolean;
  readonly #isTerminal: boolean;
  #nextTime = 0;
  #isDirty = false;

  /** @param asked `--progress` was given; a terminal shows it anyway, unless told to be quiet. */
  constructor({ asked, quiet }: { asked: boolean; quiet: boolean }) {
    this.#isTerminal = process.stderr.isTTY === true;
    this.#isShown = asked || (this.#isTerminal && !quiet);
  }

  /** @param line is only made when it is shown. */
  update(line: () => string): void {
    if (!this.#isShown || performance.now() < this.#nextTime) return;
    this.#nextTime =
      performance.now() + (this.#isTerminal ? terminalMilliseconds : plainMilliseconds);
    process.stderr.write(this.#isTerminal ? `${eraseLine}${line()}` : `${line()}\n`);
    this.#isDirty = this.#isTerminal;
  }

  /** Takes the line away, for what is printed next. */
  [Symbol.dispose](): void {
    if (this.#isDirty) process.stderr.write(eraseLine);
    this.#isDirty = false;
  }
}

const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** `512 B`, `20.6 MiB` */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  let value = bytes;
  let unit = '';
  for (unit of units) {
    value /= 1024;
    if (value < 1024) break;
  }
  return `${value.toFixed(1)} ${unit}`;
}

/** Bytes, and how fast they went since `startedAt` (of `performance.now()`). */
export function formatRate(bytes: number, startedAt: number): string {
  const seconds = Math.max((performance.now() - startedAt) / 1000, 0.001);
  return `${formatBytes(bytes)}, ${formatBytes(Math.round(bytes / seconds))}/s`;
}
