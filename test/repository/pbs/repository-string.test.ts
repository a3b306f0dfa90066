import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { PbsfsError } from '../../../src/errors.ts';
import {
  formatRepositoryString,
  isTokenId,
  parseHost,
  parseRepositoryString,
} from '../../../src/repository/pbs/repository-string.ts';

type Row = readonly [text: string, authId: string, host: string, port: number, datastore: string];

const right: readonly Row[] = [
  // The six rows that were tried against the regular expression of PBS itself.
  ['store1', 'root@pam', 'localhost', 8007, 'store1'],
  ['h:store1', 'root@pam', 'h', 8007, 'store1'],
  ['8008:store1', 'root@pam', '8008', 8007, 'store1'],
  ['u@pbs@h:store1', 'u@pbs', 'h', 8007, 'store1'],
  ['u@pbs!tok@[fe80::1]:8008:s', 'u@pbs!tok', '[fe80::1]', 8008, 's'],
  ['backup@pbs!reader@pbs.example:8007:store1', 'backup@pbs!reader', 'pbs.example', 8007, 'store1'],
  // The forms of the manual.
  ['myhostname:localstore', 'root@pam', 'myhostname', 8007, 'localstore'],
  ['192.168.55.55:1234:localstore', 'root@pam', '192.168.55.55', 1234, 'localstore'],
  ['[ff80::51]:store', 'root@pam', '[ff80::51]', 8007, 'store'],
  ['[ff80::51]:1234:store', 'root@pam', '[ff80::51]', 1234, 'store'],
  ['myuser@pbs@myhostname:store', 'myuser@pbs', 'myhostname', 8007, 'store'],
  ['myuser@pbs!client1@host:store', 'myuser@pbs!client1', 'host', 8007, 'store'],
  // Users with @ and other odd characters: the host stands behind the last @.
  ['a@b@pbs@h:s', 'a@b@pbs', 'h', 8007, 's'],
  ['a@b.example@ldap@h.example:9000:s', 'a@b.example@ldap', 'h.example', 9000, 's'],
  ['a+b%c=d@pbs@h:s', 'a+b%c=d@pbs', 'h', 8007, 's'],
  ['jürgen@pbs@h:s', 'jürgen@pbs', 'h', 8007, 's'],
  ['a!b@pbs@h:s', 'a!b@pbs', 'h', 8007, 's'],
  ['a!b@pbs!t@h:s', 'a!b@pbs!t', 'h', 8007, 's'],
  ['x[1]@pbs@h:s', 'x[1]@pbs', 'h', 8007, 's'],
  ['@@pbs@h:s', '@@pbs', 'h', 8007, 's'],
  // Datastores.
  ['_store', 'root@pam', 'localhost', 8007, '_store'],
  ['s', 'root@pam', 'localhost', 8007, 's'],
  ['a.b-c_d', 'root@pam', 'localhost', 8007, 'a.b-c_d'],
  ['0', 'root@pam', 'localhost', 8007, '0'],
  ['h:8007', 'root@pam', 'h', 8007, '8007'],
  // Hosts and ports.
  ['h-1.example.org:s', 'root@pam', 'h-1.example.org', 8007, 's'],
  ['999.1.1.1:s', 'root@pam', '999.1.1.1', 8007, 's'],
  ['h:0:s', 'root@pam', 'h', 0, 's'],
  ['h:65535:s', 'root@pam', 'h', 65_535, 's'],
  ['h:00443:s', 'root@pam', 'h', 443, 's'],
  ['[::1]:s', 'root@pam', '[::1]', 8007, 's'],
  ['[::ffff:10.0.0.1]:s', 'root@pam', '[::ffff:10.0.0.1]', 8007, 's'],
  ['u@pam@[2001:DB8::1]:s', 'u@pam', '[2001:DB8::1]', 8007, 's'],
];

const wrong: readonly string[] = [
  '',
  ' ',
  ':',
  'h:',
  ':s',
  'u@pbs@store1',
  'u@pbs',
  'u@h:s',
  'u@pbs!@h:s',
  'u@pbs!t!x@h:s',
  'u@@h:s',
  'u@pbs@:s',
  'fe80::1:store',
  '::1:s',
  '[fe80::1%eth0]:s',
  '[fe80::1]',
  '[fe80::1]s',
  '[hello]:s',
  '[12345::1]:s',
  '[1.2.3.4]:s',
  'h:65536:s',
  'h:99999:s',
  'h:100000:s',
  'h:port:s',
  'h:-1:s',
  'h_1:s',
  '-h:s',
  'h-:s',
  'h..x:s',
  'h.:s',
  'a b@pbs@h:s',
  'a/b@pbs@h:s',
  'a\tb@pbs@h:s',
  'h:s/x',
  'h:-s',
  'h:.s',
  'h:s\n',
  'https://h:8007/s',
  'h:1:2:s',
  `h:${'s'.repeat(300)}`,
];

test('sixty and more repository strings parse as PBS parses them', () => {
  assert.ok(right.length + wrong.length >= 60);
  for (const [text, authId, host, port, datastore] of right) {
    assert.deepEqual(parseRepositoryString(text), { authId, host, port, datastore }, text);
  }
});

test('what PBS refuses is a usage error that shows the expected form', () => {
  for (const text of wrong) {
    assert.throws(
      () => parseRepositoryString(text),
      (error) => error instanceof PbsfsError && error.code === 'usage',
      JSON.stringify(text),
    );
  }
  assert.throws(() => parseRepositoryString('fe80::1:store'), /brackets/);
  assert.throws(() => parseRepositoryString('u@pbs@store1'), /needs a host/);
  assert.throws(
    () => parseRepositoryString('h:port:s'),
    /\[\[user@realm\[!token\]@\]host\[:port\]:\]datastore/,
  );
});

test('a formatted location parses to itself', () => {
  const name = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,10}$/);
  const host = fc.oneof(
    fc.stringMatching(/^[a-z0-9]{1,5}(\.[a-z0-9]{1,5}){0,2}$/),
    fc
      .ipV6()
      .filter((address) => !address.includes('%'))
      .map((address) => `[${address}]`),
  );
  const user = fc.stringMatching(/^[^\s:/\p{Cc}]{1,8}$/u);
  const location = fc.record(
    {
      authId: fc.oneof(
        fc.tuple(user, name).map(([u, realm]) => `${u}@${realm}`),
        fc.tuple(user, name, name).map(([u, realm, token]) => `${u}@${realm}!${token}`),
      ),
      host,
      port: fc.integer({ min: 0, max: 65_535 }),
      datastore: name,
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(location, (value) => {
      assert.deepEqual(parseRepositoryString(formatRepositoryString(value)), value);
    }),
  );
});

test('no text makes the parser throw anything but a usage error, or run long', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
      try {
        parseRepositoryString(text);
      } catch (error) {
        assert.ok(error instanceof PbsfsError && error.code === 'usage');
      }
    }),
  );
  const started = performance.now();
  assert.throws(() => parseRepositoryString(`${'a@'.repeat(127)}!`));
  assert.throws(() => parseRepositoryString(`${'a-'.repeat(127)}:`));
  assert.ok(performance.now() - started < 500);
});

test('a bare IPv6 address on its own gets brackets, and a zone is refused', () => {
  assert.equal(parseHost('fe80::1'), '[fe80::1]');
  assert.equal(parseHost('[fe80::1]'), '[fe80::1]');
  assert.throws(() => parseHost('fe80::1%eth0'), PbsfsError);
});

test('a token id is told from a user whose name has an exclamation mark', () => {
  assert.ok(isTokenId('a@pbs!t'));
  assert.ok(!isTokenId('a!b@pbs'));
});
