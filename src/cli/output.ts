/**
 * What a command writes: data on standard output with backpressure, everything else as one line each on
 * standard error. A reader that goes away (`pbsfs ls | head -1`) ends the command quietly.
 */
import { formatError, PbsfsError, toPbsfsError } from '../errors.ts';
import { formatTreePath } from '../tree/tree-path.ts';
import { exitCodeOf } from './exit-code.ts';

/** Thrown by `writeOut` when nobody reads any more. Not an error: the command ends with what it has done. */
export class OutputClosed extends Error {}

/** Keeps a failed write from being an uncaught error event; `writeOut` reports it. Call once. */
export function guardStandardStreams(): void {
  process.stdout.on('error', () => {});
  process.stderr.on('error', () => {});
}

/**
 * Writes and waits until the reader has taken it.
 * @throws OutputClosed; PbsfsError `failed` where the output cannot be written (a full disk).
 */
export async function writeOut(data: string | Uint8Array): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(data, (error) => {
      if (error === null || error === undefined) resolve();
      else reject(writeFailure(error));
    });
  });
}

function writeFailure(error: Error): Error {
  if ('code' in error && error.code === 'EPIPE') return new OutputClosed();
  return new PbsfsError('failed', `cannot write to standard output: ${error.message}`, {
    cause: error,
  });
}

/** Control characters would let a hostile name forge a second line or drive the terminal. */
export function oneLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
  return text.replace(/[\x00-\x1f\x7f-\x9f]/g, (character) =>
    character === '\n' ? ' ' : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}

/** `pbsfs: what: where: why (what to do)`. */
export function formatFailure(what: string | undefined, error: unknown): string {
  return oneLine(`pbsfs: ${what === undefined ? '' : `${what}: `}${formatError(error)}`);
}

/** One line on standard error; the stack too where the fault is our own. */
export function printFailure(what: string | undefined, error: unknown): void {
  process.stderr.write(`${formatFailure(what, error)}\n`);
  const known = toPbsfsError(error);
  if (known.code !== 'bug') return;
  const stack = known.cause instanceof Error ? known.cause.stack : known.stack;
  process.stderr.write(`${stack}\n`);
}

/** The failure with its path in the tree, where it does not yet say where it happened. */
export function atPath(error: unknown, path: readonly Uint8Array[]): PbsfsError {
  const known = toPbsfsError(error);
  const { snapshot, path: knownPath } = known.context;
  if (snapshot !== undefined || knownPath !== undefined) return known;
  return known.at({ path: formatTreePath(path) });
}

/** For a command that goes on after a failure: the first one gives the exit code. */
export function reportFailure(what: string, error: unknown): void {
  printFailure(what, error);
  process.exitCode ??= exitCodeOf(error);
}
