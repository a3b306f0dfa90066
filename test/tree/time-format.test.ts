import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isPbsfsError } from '../../src/errors.ts';
import { backupTimeFormat, parseTimeFormat } from '../../src/tree/time-format.ts';

const time = 1_700_000_000;

test('the default is the form of PBS, in UTC', () => {
  assert.equal(backupTimeFormat.format(time), '2023-11-14T22:13:20Z');
  assert.equal(backupTimeFormat.parse('2023-11-14T22:13:20Z'), time);
  assert.equal(backupTimeFormat.parse('2023-11-14 22:13:20'), undefined);
});

test('a pattern names each second', () => {
  const cases: [string, string][] = [
    ['%Y-%m-%d_%H%M%S', '2023-11-14_221320'],
    ['%Y%m%d%H%M%S', '20231114221320'],
    ['%d.%m.%Y %H.%M.%S 100%%', '14.11.2023 22.13.20 100%'],
    ['(%Y)[%m]{%d}*%H?%M+%S^', '(2023)[11]{14}*22?13+20^'],
  ];
  for (const [pattern, name] of cases) {
    const format = parseTimeFormat(pattern);
    assert.equal(format.format(time), name);
    assert.equal(format.parse(name), time);
    assert.equal(format.parse(`${name}x`), undefined);
  }
});

test('dates that do not exist are no names', () => {
  const format = parseTimeFormat('%Y%m%d%H%M%S');
  for (const name of ['20230230000000', '20231301000000', '20231114250000', '19700101000000']) {
    assert.equal(format.parse(name), undefined, name);
  }
});

test('a pattern that is ambiguous or no name is a usage error', () => {
  const wrong = [
    '',
    '%Y-%m-%d',
    '%Y%m%d%H%M',
    '%Y/%m/%d %H%M%S',
    '%Y%m%d%H%M%S%z',
    '%Y%m%d%H%M%S%',
    `%Y%m%d%H%M%S${'x'.repeat(250)}`,
  ];
  for (const pattern of wrong) {
    assert.throws(
      () => parseTimeFormat(pattern),
      (error) => isPbsfsError(error, 'usage'),
      pattern,
    );
  }
});

test('every time comes back from its name', () => {
  const format = parseTimeFormat('%S-%M-%H %d %m %Y');
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 253_402_300_799 }), (seconds) => {
      assert.equal(format.parse(format.format(seconds)), seconds);
    }),
  );
});
