import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { isPbsfsError } from '../../src/errors.ts';
import { parseNameGlob } from '../../src/transfer/name-glob.ts';
import { needs } from '../support/requirements.ts';

function fits(pattern: string, name: string | Buffer): boolean {
  return parseNameGlob(pattern)(Buffer.from(name as string));
}

test('a pattern fits the names that find(1) finds with it', () => {
  const table: readonly [pattern: string, fitting: string[], others: string[]][] = [
    ['id_*', ['id_rsa', 'id_'], ['xid_rsa', 'id']],
    ['*', ['', 'a', '.hidden', 'a b'], []],
    ['?', ['a', 'ä', '€', '🎉'], ['', 'ab', 'a\u0308']],
    ['[abc]', ['a', 'c'], ['d', 'ab', '[abc]']],
    ['[!a-c]', ['d', 'ä'], ['a', 'b']],
    ['[^a-c]', ['d'], ['b']],
    ['[]x]', [']', 'x'], ['[]x]']],
    ['[!]x]', ['y'], [']', 'x']],
    ['[a-]', ['a', '-'], ['b']],
    ['[a', ['[a'], ['a']],
    ['[ä-ö]', ['å', 'ö'], ['a', 'z']],
    ['[[:digit:]][[:upper:]]', ['1A'], ['a1', '1a']],
    ['\\*', ['*'], ['\\*', 'a']],
    ['a\\?b', ['a?b'], ['axb']],
    ['*.tar.*', ['a.tar.gz', '.tar.'], ['a.tar', 'tar.gz']],
    ['A*', ['ABC'], ['abc']],
  ];
  for (const [pattern, fitting, others] of table) {
    for (const name of fitting) assert.ok(fits(pattern, name), `${pattern} fits ${name}`);
    for (const name of others) assert.ok(!fits(pattern, name), `${pattern} does not fit ${name}`);
  }
});

test('bytes that are no UTF-8 are single units, written \\xNN', () => {
  const name = Buffer.from([0x61, 0xff, 0xc3, 0x28]);
  assert.ok(fits('a\\xFF*', name));
  assert.ok(fits('a???', name));
  assert.ok(!fits('a??', name));
  assert.ok(!fits('aÿ*', name));
  assert.ok(fits('\\xC3\\xA4', 'ä'));
  assert.ok(fits('\\x61', 'a'));
});

test('a pattern that cannot be meant is a usage error', () => {
  for (const pattern of ['a\\', '[[:alfa:]]']) {
    assert.throws(
      () => parseNameGlob(pattern),
      (error) => isPbsfsError(error, 'usage'),
    );
  }
});

test('many stars take no longer than their number', () => {
  const matches = parseNameGlob(`${'*a'.repeat(200)}b`);
  const started = performance.now();
  assert.equal(matches(Buffer.from('a'.repeat(255))), false);
  assert.ok(performance.now() - started < 1000);
});

/** fnmatch(3) of the C library, for as many pairs as there are lines. */
const fnmatchScript = `
import ctypes, json, locale, sys
locale.setlocale(locale.LC_ALL, 'C.UTF-8')
libc = ctypes.CDLL(None)
print(json.dumps([libc.fnmatch(p.encode(), n.encode(), 0) == 0 for p, n in json.load(sys.stdin)]))
`;

test('patterns agree with fnmatch(3)', { skip: needs('python3') }, () => {
  const piece = fc.constantFrom(
    'a',
    'b',
    '-',
    '*',
    '?',
    '[',
    ']',
    '!',
    '^',
    'ä',
    '\\a',
    '[ab]',
    '[!a]',
    '[a-c]',
    '[^ä]',
    '[]a]',
    '[a-]',
    '.',
  );
  const pattern = fc.array(piece, { maxLength: 7 }).map((pieces) => pieces.join(''));
  const name = fc
    .array(fc.constantFrom('a', 'b', 'c', '-', '[', ']', '!', '^', 'ä', '.'), { maxLength: 6 })
    .map((parts) => parts.join(''));
  const pairs = fc.sample(fc.tuple(pattern, name), { numRuns: 20_000, seed: 5 });
  const answers = execFileSync('python3', ['-c', fnmatchScript], {
    input: JSON.stringify(pairs),
    maxBuffer: 1 << 24,
  });
  const expected = JSON.parse(answers.toString()) as boolean[];
  const differing = pairs.filter(([p, n], index) => fits(p, n) !== expected[index]);
  assert.deepEqual(differing, []);
  assert.ok(expected.filter(Boolean).length > 500);
});
