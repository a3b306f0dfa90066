import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { parseProxy } from '../../../src/repository/pbs/proxy.ts';
import { expectError } from '../../support/expect-error.ts';

test('proxies are read as PBS reads them', () => {
  const rows: readonly [string, string, number, string | undefined][] = [
    ['proxy', 'proxy', 1080, undefined],
    ['proxy:3128', 'proxy', 3128, undefined],
    ['http://proxy.example:3128', 'proxy.example', 3128, undefined],
    ['http://proxy.example:3128/', 'proxy.example', 3128, undefined],
    ['http://user:pass@proxy', 'proxy', 1080, 'user:pass'],
    ['user:p%40ss%3Aword@[::1]:8080', '[::1]', 8080, 'user:p@ss:word'],
    ['HTTP://10.0.0.1', '10.0.0.1', 1080, undefined],
  ];
  for (const [text, host, port, credentials] of rows) {
    assert.deepEqual(parseProxy(text), { host, port, credentials }, text);
  }
});

test('a proxy that cannot be used is a usage error that shows no password', () => {
  const rows = [
    '',
    'socks5://proxy',
    'https://proxy',
    'http://',
    'a:b@',
    'proxy:port',
    'u:%zz@proxy',
    'p:99999',
  ];
  for (const text of rows) {
    assert.throws(() => parseProxy(text), expectError('usage'), inspect(text));
  }
  assert.throws(
    () => parseProxy('http://user:hunter2@proxy/path'),
    (error) => !inspect(error).includes('hunter2'),
  );
});
