import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPbsfsError } from '../../src/errors.ts';
import { matchPathPatterns, parsePathPattern } from '../../src/transfer/path-pattern.ts';

test('a pattern matches the paths that PBS matches with it', () => {
  const table: readonly [pattern: string, matched: string[], others: string[]][] = [
    ['/a', ['/a'], ['/x/a', '/a/b', '/ab']],
    ['a', ['/a', '/x/a', '/x/y/a'], ['/a/b', '/xa']],
    ['a/b', ['/a/b', '/x/a/b'], ['/a/x/b', '/b']],
    ['*/a', ['/a', '/x/a', '/x/y/a'], ['/x']],
    ['/*/a', ['/x/a'], ['/a', '/x/y/a']],
    ['*.log', ['/x.log', '/d/.log'], ['/x.log/y', '/log']],
    ['/a*', ['/a', '/abc'], ['/ab/c']],
    ['**', ['/a', '/a/b/c'], []],
    ['/**', ['/a', '/a/b/c'], []],
    ['a/**', ['/a/b', '/x/a/b/c'], ['/a', '/x/a']],
    ['/a/**', ['/a/b', '/a/b/c'], ['/a', '/x/a/b']],
    ['/a/**/b', ['/a/b', '/a/x/b', '/a/x/y/b'], ['/a/xb', '/b']],
    ['/***/b', ['/b', '/x/y/b'], ['/xb']],
    ['/d**b', ['/db', '/dxxb'], ['/d/b', '/dx/xb']],
    ['?', ['/a', '/x/a'], ['/ab']],
    ['??', ['/ä'], ['/a', '/€']],
    ['[^b]', ['/a', '/b/a'], ['/b']],
    ['[!a]', ['/!', '/a'], ['/b']],
    ['/a[/]b', ['/a/b'], ['/a.b']],
    ['/a?b', ['/a.b'], ['/a/b']],
    ['[c-a]', ['/b'], ['/d']],
    ['[]', [], ['/]', '/a']],
    ['[^]', ['/]', '/a'], []],
    ['[-a]', ['/-', '/a'], ['/b']],
    ['[[:digit:]]*', ['/1a'], ['/a1']],
    ['\\*', ['/*'], ['/a']],
    ['\\!a', ['/!a'], ['/a']],
    ['\\xFF', [], ['/\\xFF']],
    ...['', '!', '/', '//x', './x', 'a//b'].map((p) => [p, [], ['/x', '/a/b', '/a']] as never),
  ];
  for (const [pattern, matched, others] of table) {
    const { matches } = parsePathPattern(pattern);
    for (const path of matched) assert.ok(matches(Buffer.from(path)), `${pattern} matches ${path}`);
    for (const path of others) assert.ok(!matches(Buffer.from(path)), `${pattern}, not ${path}`);
  }
  assert.ok(parsePathPattern('a\\xFF').matches(Buffer.from([0x2f, 0x61, 0xff])));
});

test('the last pattern that matches wins, and ! takes back', () => {
  const patterns = ['*.log', '!keep.log', '/var/keep.log'].map(parsePathPattern);
  const of = (path: string): unknown => matchPathPatterns(patterns, Buffer.from(path), false);
  assert.equal(of('/a.log'), 'matched');
  assert.equal(of('/keep.log'), 'taken-back');
  assert.equal(of('/var/keep.log'), 'matched');
  assert.equal(of('/a'), undefined);
});

test('slashes at the end limit a pattern to directories', () => {
  for (const text of ['tmp/', 'tmp//', '/tmp/']) {
    const patterns = [parsePathPattern(text)];
    assert.equal(matchPathPatterns(patterns, Buffer.from('/tmp'), true), 'matched');
    assert.equal(matchPathPatterns(patterns, Buffer.from('/tmp'), false), undefined);
  }
});

test('a pattern that PBS refuses is a usage error that names it', () => {
  for (const pattern of ['a\\', '[a', '[a-]', '[[:alfa:]]', '![a']) {
    assert.throws(
      () => parsePathPattern(pattern),
      (error) => isPbsfsError(error, 'usage') && error.message.includes(pattern),
    );
  }
});
