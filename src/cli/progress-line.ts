/**
 * How far a long job has come: one line that rewrites itself on a terminal; where it was asked for without one, a line
 * for each twentieth of the way, or now and then where nobody knows how long that is. Goes to standard error.
 */

/** A terminal shows ten a second at most; elsewhere each is a line that stays. */
const terminalMilliseconds = 100;
const plainMilliseconds = 5000;
const plainSteps = 20;
const eraseLine = '\r\x1b[K';

export interface ProgressOptions {
  /** `--progress` was given; a terminal shows it anyway, unless told to be quiet. */
  readonly asked: boolean;
  readonly quiet: boolean;
}

export class ProgressLine implements Disposable {
  readonly #options: ProgressOptions;
  readonly #label: string;
  /** Whether the terminal's line is in use, by whichever of those that share it. */
  readonly #line: { isDirty: boolean };
  readonly #isShown: boolean;
  readonly #isTerminal: boolean;
  #nextTime = 0;
  #nextStep = 1;

  constructor(
    options: ProgressOptions,
    label = '',
    line: { isDirty: boolean } = { isDirty: false },
  ) {
    this.#options = options;
    this.#label = label;
    this.#line = line;
    this.#isTerminal = process.stderr.isTTY === true;
    this.#isShown = options.asked || (this.#isTerminal && !options.quiet);
  }

  /** For one of several jobs that run at once and share the line. */
  labelled(label: string): ProgressLine {
    return new ProgressLine(this.#options, `${label}: `, this.#line);
  }

  /**
   * @param line is only made when it is shown.
   * @param share of the whole that is done, 0 to 1, where that is known.
   */
  update(line: () => string, share?: number): void {
    if (!this.#isShown || !this.#isDue(share)) return;
    const text = `${this.#label}${line()}`;
    process.stderr.write(this.#isTerminal ? `${eraseLine}${text}` : `${text}\n`);
    this.#line.isDirty = this.#isTerminal;
  }

  #isDue(share: number | undefined): boolean {
    if (!this.#isTerminal && share !== undefined) {
      const step = Math.floor(share * plainSteps);
      if (step < this.#nextStep) return false;
      this.#nextStep = step + 1;
      return true;
    }
    const now = performance.now();
    if (now < this.#nextTime) return false;
    this.#nextTime = now + (this.#isTerminal ? terminalMilliseconds : plainMilliseconds);
    return true;
  }

  /** Takes the line away, for what is printed next. */
  [Symbol.dispose](): void {
    if (this.#line.isDirty) process.stderr.write(eraseLine);
    this.#line.isDirty = false;
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
