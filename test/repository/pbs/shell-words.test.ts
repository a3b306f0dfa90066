import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { splitShellWords } from '../../../src/repository/pbs/shell-words.ts';
import { expectError } from '../../support/expect-error.ts';

test('words, quotes and backslashes split as in a shell', () => {
  const table: readonly [string, readonly string[]][] = [
    ['', []],
    ['  \t\n ', []],
    ['pass show pbs', ['pass', 'show', 'pbs']],
    [`a 'b c'd "e f"`, ['a', 'b cd', 'e f']],
    [`''`, ['']],
    [`a "" b`, ['a', '', 'b']],
    [`"a\\"b\\\\c\\$d\\e"`, ['a"b\\c$d\\e']],
    [`'a\\b'`, ['a\\b']],
    [`a\\ b \\'c`, ['a b', "'c"]],
    ['$HOME * ; | &', ['$HOME', '*', ';', '|', '&']],
    ['a\\\nb', ['ab']],
  ];
  for (const [text, words] of table) assert.deepEqual(splitShellWords(text), words, text);
});

test('a quote that is not closed is an error without the text, which may be secret', () => {
  for (const text of [`a 'b`, `"b`, 'a\\']) {
    assert.throws(() => splitShellWords(text), expectError('usage', /^the command has a quote/));
  }
});

test('words agree with those of sh', () => {
  const piece = fc.oneof(
    fc.stringMatching(/^[a-z ]{0,4}$/),
    fc.stringMatching(/^'[a-z "\\]{0,4}'$/),
    fc.stringMatching(/^"[a-z '%]{0,4}"$/),
    fc.constantFrom('\\ ', "\\'", '\\"', '\\\\', '"\\""', '"\\x"'),
  );
  const lines = fc.sample(fc.array(piece, { maxLength: 6 }), 150).map((parts) => parts.join(''));
  const script = lines.map((line) => `show ${line}`).join('\n');
  const show = `show() { for word in "$@"; do printf '%s\\001' "$word"; done; printf '\\002'; }`;
  const output = execFileSync('sh', ['-c', `${show}\n${script}`], { encoding: 'latin1' });
  const expected = output.split('\x02').slice(0, -1);
  assert.deepEqual(
    lines.map((line) =>
      splitShellWords(line)
        .map((word) => `${word}\x01`)
        .join(''),
    ),
    expected,
  );
});
