/** `-o` as mount(8), fstab and users of other FUSE programs write it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type MountOptions, parseMountOptions } from '../../src/cli/mount-options.ts';
import { isPbsfsError } from '../../src/errors.ts';

const none: MountOptions = {
  allowOther: false,
  allowRoot: false,
  defaultPermissions: false,
  autoUnmount: false,
  nonempty: false,
  noexec: false,
  remount: false,
  longOptions: [],
};

const accepted: readonly (readonly [texts: readonly string[], expected: Partial<MountOptions>])[] =
  [
    [[], {}],
    [[''], {}],
    [[',,ro,'], {}],
    [['allow_other'], { allowOther: true }],
    [['ro,allow_root', 'default_permissions'], { allowRoot: true, defaultPermissions: true }],
    [['uid=1000,gid=100,umask=022'], { uid: 1000, gid: 100, umask: 0o22 }],
    [['uid=0', 'uid=7'], { uid: 7 }],
    [['umask=0'], { umask: 0 }],
    [['max_read=131072,fsname=backups'], { maxRead: 131072, fsname: 'backups' }],
    [['fsname=a\\,b=c d'], { fsname: 'a,b=c d' }],
    [['auto_unmount,nonempty'], { autoUnmount: true, nonempty: true }],
    [['ro,remount'], { remount: true }],
    // What mount(8) makes of `ro,nofail,_netdev,x-systemd.automount,allow_other,noauto` in fstab.
    [['ro,allow_other,nofail,_netdev'], { allowOther: true }],
    [['ro,nofail,_netdev,x-systemd.automount,x-gvfs-show,X-mount.mkdir,noauto,user,defaults'], {}],
    [['rw,noatime,nodev,nosuid,noexec,dev,suid,exec,relatime,comment=x,users'], { noexec: true }],
    [
      ['keyfile=/a b,cache-chunks=8'],
      {
        longOptions: [
          ['keyfile', '/a b'],
          ['cache-chunks', '8'],
        ],
      },
    ],
    [['owner-root'], { longOptions: [['owner-root', undefined]] }],
    [['ns=a=b'], { longOptions: [['ns', 'a=b']] }],
  ];

const longNames = new Set(['keyfile', 'cache-chunks', 'owner-root', 'ns']);

for (const [texts, expected] of accepted) {
  test(`-o ${JSON.stringify(texts)} is understood`, () => {
    assert.deepEqual(parseMountOptions(texts, longNames), { ...none, ...expected });
  });
}

const refused: readonly (readonly [text: string, why: RegExp])[] = [
  ['allow_othr', /unknown mount option 'allow_othr'/],
  ['prefetched=4', /unknown mount option 'prefetched'/],
  ['allow_other=1', /'allow_other' takes no value/],
  ['uid', /'uid' needs a value/],
  ['uid=root', /'uid' has the wrong value 'root'/],
  ['uid=-1', /'uid' has the wrong value/],
  ['uid=4294967295', /'uid' has the wrong value/],
  ['gid=1.5', /'gid' has the wrong value/],
  ['umask=8', /'umask' has the wrong value/],
  ['umask=1777', /'umask' has the wrong value/],
  ['max_read=0', /'max_read' has the wrong value/],
  ['fsname=', /'fsname' has the wrong value/],
  ['allow_other,allow_root', /exclude each other/],
];

for (const [text, why] of refused) {
  test(`-o ${text} is a usage error`, () => {
    assert.throws(
      () => parseMountOptions([text], longNames),
      (error) => isPbsfsError(error, 'usage') && why.test(error.message),
    );
  });
}

test('mount -s lets unknown options pass', () => {
  assert.deepEqual(parseMountOptions(['ro,sloppiness=1'], longNames, true), none);
});
