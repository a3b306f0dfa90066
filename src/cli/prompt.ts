/** Asks the user on the terminal. */
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { PbsfsError } from '../errors.ts';

export interface Question {
  readonly text: string;
  /** What is typed is shown: it is no secret. */
  readonly isVisible?: boolean;
}

/** Gives the answer, one line. @throws PbsfsError `aborted` */
export type Ask = (question: Question) => Promise<string>;

/** The terminal that the command was started on, or undefined where there is none. */
export function terminalPrompt(): Ask | undefined {
  return process.stdin.isTTY ? askOnTerminal : undefined;
}

async function askOnTerminal({ text, isVisible = false }: Question): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const output = isVisible ? process.stderr : nowhere;
  const lines = createInterface({ input: process.stdin, output, terminal: true });
  // From here on the terminal echoes nothing. What readline shows it redraws, so that question is its own.
  if (!isVisible) process.stderr.write(text);
  const interrupted = new AbortController();
  const interrupt = (): void => interrupted.abort();
  lines.on('SIGINT', interrupt);
  // Ctrl-D, or the terminal went away.
  lines.on('close', interrupt);
  try {
    return await lines.question(isVisible ? text : '', { signal: interrupted.signal });
  } catch (error) {
    throw new PbsfsError('aborted', 'interrupted while waiting for the answer', { cause: error });
  } finally {
    lines.close();
    if (!isVisible) process.stderr.write('\n');
  }
}
