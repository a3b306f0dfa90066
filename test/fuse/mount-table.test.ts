import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseMountTable, readMountTable } from '../../src/fuse/mount-table.ts';

test('reads device, place, type and source of each mount', () => {
  const text = [
    '22 27 0:21 / /proc rw,relatime - proc proc rw',
    '36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:4 - ext3 /dev/root rw,errors=continue',
    '42 27 0:39 / /mnt/pbs ro,nosuid,nodev - fuse.pbsfs root@pam@host:store ro,user_id=0',
    '',
  ].join('\n');
  assert.deepEqual(parseMountTable(text), [
    { device: '0:21', mountPoint: '/proc', type: 'proc', source: 'proc' },
    { device: '98:0', mountPoint: '/mnt2', type: 'ext3', source: '/dev/root' },
    { device: '0:39', mountPoint: '/mnt/pbs', type: 'fuse.pbsfs', source: 'root@pam@host:store' },
  ]);
});

test('decodes the octal escapes of spaces, tabs, newlines and backslashes', () => {
  const line = '1 2 0:3 / /a\\040b\\011c\\012d\\134e ro - fuse.pbsfs x\\134040y ro';
  const [entry] = parseMountTable(line);
  assert.equal(entry?.mountPoint, '/a b\tc\nd\\e');
  assert.equal(entry?.source, 'x\\040y');
});

test('leaves out lines that it does not understand', () => {
  assert.deepEqual(parseMountTable('\n1 2 3\n1 2 0:3 / /x ro - \n-\n'), []);
});

test('sees the mounts of this machine', { skip: process.platform !== 'linux' }, async () => {
  assert.ok((await readMountTable()).some((entry) => entry.mountPoint === '/proc'));
});
