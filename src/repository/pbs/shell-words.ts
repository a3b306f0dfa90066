/**
 * Splits a command line into words as a POSIX shell does, with quotes and backslashes and nothing else:
 * no variables, no globs, no operators. `PBS_…_CMD` is run that way, without a shell.
 */
import { PbsfsError } from '../../errors.ts';

/** Blank, the rest of a word: quoted in either way, escaped, or plain. */
const token = /\s+|'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|\\([\s\S])|([^\s'"\\]+)/y;
/** Inside double quotes a backslash escapes only these. */
const escapedInQuotes = /\\(["\\$`]|\n)/g;

/** @throws PbsfsError `usage` for a quote that is not closed, or a backslash at the end. */
export function splitShellWords(text: string): readonly string[] {
  const words: string[] = [];
  let word: string | undefined;
  token.lastIndex = 0;
  while (token.lastIndex < text.length) {
    const match = token.exec(text);
    if (match === null) {
      throw new PbsfsError(
        'usage',
        'the command has a quote that is not closed, or ends in a backslash',
      );
    }
    const [, single, double, escaped, plain] = match;
    const part = single ?? double?.replace(escapedInQuotes, unescaped) ?? escaped ?? plain;
    if (part === undefined) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      // Outside quotes an escaped line end joins two lines.
      word = (word ?? '') + (escaped === '\n' ? '' : part);
    }
  }
  if (word !== undefined) words.push(word);
  return words;
}

function unescaped(_: string, character: string): string {
  return character === '\n' ? '' : character;
}
