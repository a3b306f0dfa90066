/** PBS's grammar of namespaces, groups and snapshots: what is taken and what is not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  compareGroups,
  formatBackupTime,
  formatGroup,
  formatNamespace,
  formatSnapshot,
  type GroupId,
  isBackupTime,
  isBackupType,
  isSafeId,
  namespacePath,
  parseBackupTime,
  parseGroup,
  parseNamespace,
  parseSnapshot,
} from '../../src/formats/snapshot-path.ts';
import { expectError } from '../support/expect-error.ts';

test('ids are letters, digits and underscores, then also dots and dashes', () => {
  for (const id of ['a', '_', '0', '100', 'Name_with.dots-and_1', 'a..', 'a--', 'x'.repeat(300)]) {
    assert.ok(isSafeId(id), id);
  }
  for (const id of [
    '',
    '.',
    '..',
    '.a',
    '-a',
    'a/b',
    'a b',
    'ä',
    'a\n',
    '\na',
    'a\0',
    'a:b',
    '%2e',
  ]) {
    assert.ok(!isSafeId(id), JSON.stringify(id));
  }
});

test('types are exactly ct, host and vm', () => {
  for (const type of ['ct', 'host', 'vm']) assert.ok(isBackupType(type));
  for (const type of ['', 'VM', 'ns', 'vm ', 'toString']) assert.ok(!isBackupType(type));
});

test('times are UTC in one form only', () => {
  for (const [text, time] of [
    ['1970-01-01T00:00:01Z', 1],
    ['2000-02-29T23:59:59Z', 951_868_799],
    ['2023-11-14T22:13:20Z', 1_700_000_000],
    ['2038-01-19T03:14:08Z', 2_147_483_648],
    ['9999-12-31T23:59:59Z', 253_402_300_799],
  ] as const) {
    assert.equal(parseBackupTime(text), time);
    assert.equal(formatBackupTime(time), text);
    assert.ok(isBackupTime(time));
  }
});

test('times that do not exist, or are written otherwise, are none', () => {
  const wrong = [
    '',
    '1700000000',
    'latest',
    '1970-01-01T00:00:00Z',
    '1969-12-31T23:59:59Z',
    '0000-01-01T00:00:00Z',
    '2023-02-29T00:00:00Z',
    '2023-04-31T00:00:00Z',
    '2023-13-01T00:00:00Z',
    '2023-00-01T00:00:00Z',
    '2023-11-00T00:00:00Z',
    '2023-11-14T24:00:00Z',
    '2023-11-14T22:60:20Z',
    '2023-11-14T22:13:60Z',
    '2023-11-14T22:13:20',
    '2023-11-14T22:13:20z',
    '2023-11-14T22:13:20+00:00',
    '2023-11-14T22:13:20.000Z',
    '2023-11-14 22:13:20Z',
    '2023-11-14T22:13Z',
    '10000-01-01T00:00:00Z',
    '2023-11-14T22:13:20Z\n',
    ' 2023-11-14T22:13:20Z',
    '２023-11-14T22:13:20Z',
  ];
  for (const text of wrong) assert.equal(parseBackupTime(text), undefined, JSON.stringify(text));
  for (const time of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 253_402_300_800]) {
    assert.ok(!isBackupTime(time), `${time}`);
  }
});

test('namespaces are written with slashes, and lie in ns folders', () => {
  for (const [text, namespace, path] of [
    ['', [], ''],
    ['a', ['a'], 'ns/a'],
    ['a/b.c/d', ['a', 'b.c', 'd'], 'ns/a/ns/b.c/ns/d'],
    ['ns/ns', ['ns', 'ns'], 'ns/ns/ns/ns'],
  ] as const) {
    assert.deepEqual(parseNamespace(text), namespace);
    assert.equal(formatNamespace(namespace), text);
    assert.equal(namespacePath(namespace), path);
  }
});

test('a namespace is at most 7 deep and 256 bytes long', () => {
  assert.equal(parseNamespace('1/2/3/4/5/6/7').length, 7);
  assert.throws(() => parseNamespace('1/2/3/4/5/6/7/8'), expectError('usage', /8 deep/));
  const long = (length: number): string => `a/${'b'.repeat(length - 2)}`;
  assert.equal(parseNamespace(long(256)).length, 2);
  assert.throws(() => parseNamespace(long(257)), expectError('usage', /257 bytes/));
});

test('namespaces with wrong components are refused', () => {
  for (const text of ['/', '/a', 'a/', 'a//b', '..', 'a/../b', '.', '-a', 'a b', 'a/ä', 'a\n']) {
    assert.throws(() => parseNamespace(text), expectError('usage', /not a valid name/));
  }
});

const vm100: GroupId = { namespace: [], type: 'vm', id: '100' };

test('groups and snapshots are written as their paths, and read back', () => {
  for (const [text, group] of [
    ['vm/100', vm100],
    ['ct/110', { namespace: [], type: 'ct', id: '110' }],
    ['host/Name_with.dots-and_1', { namespace: [], type: 'host', id: 'Name_with.dots-and_1' }],
    ['ns/a/vm/100', { namespace: ['a'], type: 'vm', id: '100' }],
    ['ns/a/ns/b/vm/100', { namespace: ['a', 'b'], type: 'vm', id: '100' }],
    ['ns/ns/ns/vm/vm/vm', { namespace: ['ns', 'vm'], type: 'vm', id: 'vm' }],
  ] as const) {
    assert.deepEqual(parseGroup(text), group);
    assert.equal(formatGroup(group), text);
    const snapshot = { ...group, time: 1_700_000_000 };
    assert.deepEqual(parseSnapshot(`${text}/2023-11-14T22:13:20Z`), snapshot);
    assert.equal(formatSnapshot(snapshot), `${text}/2023-11-14T22:13:20Z`);
  }
});

test('what is no group is refused', () => {
  const wrong = [
    '',
    'vm',
    '100',
    'vm/',
    '/100',
    'vm/100/',
    '/vm/100',
    'qemu/100',
    'VM/100',
    'vm/../100',
    'vm/..',
    'a/vm/100',
    'a/b/vm/100',
    'ns/vm/100',
    'ns/a/b/vm/100',
    'ns//vm/100',
    'ns/../vm/100',
    'vm/100\n',
    'vm/1 0',
    'vm/100/2023-11-14T22:13:20Z',
  ];
  for (const text of wrong) {
    assert.throws(() => parseGroup(text), expectError('usage'), text);
  }
  const deep = `${'ns/a/'.repeat(8)}vm/100`;
  assert.throws(() => parseGroup(deep), expectError('usage', /8 deep/));
});

test('what is no snapshot is refused', () => {
  const wrong = [
    '',
    'vm/100',
    '2023-11-14T22:13:20Z',
    '/2023-11-14T22:13:20Z',
    'vm/2023-11-14T22:13:20Z',
    'vm/100/latest',
    'vm/100/2023-11-14T22:13:20Z/',
    'vm/100/2023-11-14T22:13:20Z/x',
    'x/100/2023-11-14T22:13:20Z',
    'vm/100/2023-02-29T00:00:00Z',
  ];
  for (const text of wrong) {
    assert.throws(() => parseSnapshot(text), expectError('usage'), text);
  }
});

test('groups are in the order of PBS: type, then numbers by value, then names by bytes', () => {
  const ordered = [
    'ct/110',
    'host/2',
    'host/A',
    'host/_x',
    'host/a',
    'vm/0',
    // The same value: bytes decide.
    'vm/009',
    'vm/9',
    'vm/10',
    'vm/100',
    'vm/18446744073709551615',
    'vm/10a',
    // Beyond a u64 it is a name.
    'vm/18446744073709551616',
    'vm/20a',
    'vm/99999999999999999999999',
    'vm/a',
  ].map(parseGroup);
  const order = (groups: readonly GroupId[]): string[] =>
    groups.toSorted(compareGroups).map(formatGroup);
  const expected = ordered.map(formatGroup);
  assert.deepEqual(order(ordered), expected);
  assert.deepEqual(order(ordered.toReversed()), expected);
  assert.equal(compareGroups(vm100, { ...vm100 }), 0);
});
