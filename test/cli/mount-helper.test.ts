/** The calls that mount(8) really makes (seen with util-linux 2.38 and fuse3 3.14). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandNames } from '../../src/cli/command-names.ts';
import { isHelperCall, parseHelperCall } from '../../src/cli/mount-helper.ts';
import { isPbsfsError } from '../../src/errors.ts';

const calls: readonly (readonly [name: string, line: string, isHelper: boolean])[] = [
  ['/sbin/mount.fuse.pbsfs', 'SRC DIR -o ro,foo', true],
  ['/sbin/mount.fuse.pbsfs', 'SRC DIR -v -n -o rw', true],
  ['mount.pbsfs', 'SRC DIR', true],
  ['/sbin/mount.fuse.pbsfs', '--help', false],
  // mount.fuse knows nothing of the link and runs the program by its own name.
  ['/usr/bin/pbsfs', '/srv/store /mnt -o ro,dev,suid', true],
  ['/usr/bin/pbsfs', 'store1 /dev/fd/3 -o ro', true],
  ['/usr/bin/pbsfs', 'mount /srv/store /mnt -o ro', false],
  ['/usr/bin/pbsfs', 'ls -l -o x', false],
  ['/usr/bin/pbsfs', 'lss vm/100', false],
  ['/usr/bin/pbsfs', 'lss -l -o x', false],
  ['/usr/bin/pbsfs', '--version', false],
  ['/usr/bin/pbsfs', '', false],
];

for (const [name, line, expected] of calls) {
  test(`'${name} ${line}' is ${expected ? 'a call by' : 'no call by'} mount(8)`, () => {
    const args = line === '' ? [] : line.split(' ');
    assert.equal(isHelperCall(name, args, commandNames), expected);
  });
}

const start = ['mount', '--daemon', '--helper'];

const translations: readonly (readonly [line: string, args: readonly string[]])[] = [
  ['SRC DIR', [...start, '--', 'SRC', 'DIR']],
  ['SRC DIR -o ro,foo', [...start, '-o', 'ro,foo', '--', 'SRC', 'DIR']],
  ['SRC DIR -s -v -n -o rw', [...start, '--sloppy', '--verbose', '-o', 'rw', '--', 'SRC', 'DIR']],
  ['-fnv SRC DIR', [...start, '--fake', '--verbose', '--', 'SRC', 'DIR']],
  ['SRC DIR -o a -o b -t fuse.pbsfs', [...start, '-o', 'a', '-o', 'b', '--', 'SRC', 'DIR']],
];

for (const [line, expected] of translations) {
  test(`mount.fuse.pbsfs ${line} becomes a mount in the background`, () => {
    assert.deepEqual(parseHelperCall(line.split(' ')), expected);
  });
}

for (const line of ['SRC', 'SRC DIR MORE', 'SRC DIR -o', 'SRC DIR -x']) {
  test(`mount.fuse.pbsfs ${line} is a usage error`, () => {
    assert.throws(
      () => parseHelperCall(line.split(' ')),
      (error) => isPbsfsError(error, 'usage'),
    );
  });
}
