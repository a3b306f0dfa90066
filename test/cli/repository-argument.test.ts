import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  parseRepositoryArgument,
  type RepositoryArgument,
} from '../../src/cli/repository-argument.ts';
import { isPbsfsError } from '../../src/errors.ts';

const directory = (path: string): RepositoryArgument => ({ kind: 'directory', path });
const server = (location: string): RepositoryArgument => ({ kind: 'server', location });

const forms: readonly (readonly [text: string, expected: RepositoryArgument])[] = [
  ['/srv/store', directory('/srv/store')],
  ['./store', directory('./store')],
  ['../shared/store', directory('../shared/store')],
  ['.', directory('.')],
  ['..', directory('..')],
  ['dir:store', directory('store')],
  ['dir:/srv/a b', directory('/srv/a b')],
  ['store1', server('store1')],
  ['host:store1', server('host:store1')],
  ['.hidden', server('.hidden')],
  ['user@pbs!token@[fe80::1]:8008:store', server('user@pbs!token@[fe80::1]:8008:store')],
];

for (const [text, expected] of forms) {
  test(`${text} is a ${expected.kind}`, () => {
    assert.deepEqual(parseRepositoryArgument(text), expected);
  });
}

for (const text of [undefined, '', 'dir:']) {
  test(`${text} is a usage error`, () => {
    assert.throws(
      () => parseRepositoryArgument(text),
      (error) => isPbsfsError(error, 'usage'),
    );
  });
}

test('an object store is refused by name', () => {
  assert.throws(
    () => parseRepositoryArgument('s3://bucket/prefix'),
    (error) => isPbsfsError(error, 'unsupported') && error.hint !== undefined,
  );
});
