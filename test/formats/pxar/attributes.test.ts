import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeAttributes } from '../../../src/formats/pxar/attributes.ts';
import { encodePxar, type PxarMetadata } from '../../support/encode-pxar.ts';
import { expectError } from '../../support/expect-error.ts';
import { readGolden } from '../../support/golden.ts';
import { goldenTree } from '../../support/golden-pxar.ts';
import { needs } from '../../support/requirements.ts';

const name = Buffer.alloc(0);

/** The attribute items of a directory with this metadata, as a writer lays them out. */
function attributeItems(metadata: PxarMetadata): Buffer {
  const archive = encodePxar(
    { ...metadata, type: 'directory', name, children: [] },
    { version: 1 },
  );
  // ENTRY before, an empty goodbye table behind.
  return archive.metadata.subarray(56, -40);
}

function xattrs(metadata: PxarMetadata, mode = 0o40755): Record<string, string> {
  const { xattrs } = decodeAttributes(attributeItems(metadata), mode);
  return Object.fromEntries(xattrs.map((one) => [one.name.toString(), one.value.toString('hex')]));
}

test('extended attributes keep order and bytes', () => {
  const value = Buffer.from([0, 1, 0, 255]);
  const decoded = decodeAttributes(
    attributeItems({
      xattrs: [
        ['user.z', value],
        ['user.empty', Buffer.alloc(0)],
        ['security.NTACL', Buffer.from('x')],
      ],
      fcaps: Buffer.from('cap'),
      quotaProjectId: 4711,
    }),
    0o40755,
  );
  assert.deepEqual(
    decoded.xattrs.map((one) => one.name.toString()),
    ['user.z', 'user.empty', 'security.NTACL', 'security.capability'],
  );
  assert.deepEqual(decoded.xattrs[0]?.value, value);
  assert.equal(decoded.quotaProjectId, 4711);
});

test('an access ACL takes owner and others from the mode, and the mask from its group bits', () => {
  const acl = {
    users: [
      [2000, 6],
      [1000, 4],
    ],
    groups: [[30, 1]],
    groupObject: 5,
  } as const;
  assert.deepEqual(xattrs({ acl }, 0o100731), {
    'system.posix_acl_access': [
      '02000000',
      '01000700ffffffff', // owner, from the mode
      '02000400e8030000', // users by id
      '02000600d0070000',
      '04000500ffffffff', // owning group, from its item
      '080001001e000000',
      '10000300ffffffff', // mask, from the mode
      '20000100ffffffff', // others, from the mode
    ].join(''),
  });
});

test('without an item for the owning group its permissions are those of the mode', () => {
  assert.deepEqual(xattrs({ acl: { users: [[7, 7]] } }, 0o100750), {
    'system.posix_acl_access':
      '0200000001000700ffffffff020007000700000004000500ffffffff10000500ffffffff20000000ffffffff',
  });
});

test('a default ACL has a mask only where one was set', () => {
  assert.deepEqual(xattrs({ acl: { default: [7, 5, 1, undefined] } }), {
    'system.posix_acl_default': '0200000001000700ffffffff04000500ffffffff20000100ffffffff',
  });
  assert.deepEqual(xattrs({ acl: { default: [7, 5, 1, 4], defaultGroups: [[9, 2]] } }), {
    'system.posix_acl_default':
      '0200000001000700ffffffff04000500ffffffff080002000900000010000400ffffffff20000100ffffffff',
  });
});

test('default users without a default ACL are no default ACL', () => {
  assert.deepEqual(xattrs({ acl: { defaultUsers: [[1, 7]] } }), {});
});

test('ACLs are those that a kernel takes for the golden entries', { skip: needs('golden') }, () => {
  const { acl_xattr } = JSON.parse(readGolden('v2/vectors.json').toString()) as {
    acl_xattr: (Record<string, string> & { path: string })[];
  };
  assert.equal(acl_xattr.length, 3);
  const root = goldenTree();
  for (const { path, ...expected } of acl_xattr) {
    let node = root;
    for (const part of path.slice(1).split('/')) {
      const child: typeof node | undefined =
        node.type === 'directory'
          ? node.children.find((one) => one.name.toString() === part)
          : undefined;
      assert.ok(child);
      node = child;
    }
    assert.ok(node.type === 'directory' || node.type === 'file');
    const found = xattrs({ acl: node.acl ?? {} }, node.permissions ?? 0);
    const inHex = Object.entries(expected).map(([key, value]) => [
      key,
      Buffer.from(value, 'base64').toString('hex'),
    ]);
    assert.deepEqual(found, Object.fromEntries(inHex), path);
  }
});

test('items that an entry has only once are corrupt the second time', () => {
  const once: readonly PxarMetadata[] = [
    { fcaps: Buffer.alloc(20) },
    { quotaProjectId: 1 },
    { acl: { groupObject: 1 } },
    { acl: { default: [1, 1, 1, 1] } },
  ];
  for (const metadata of once) {
    const items = attributeItems(metadata);
    assert.throws(
      () => decodeAttributes(Buffer.concat([items, items]), 0o40755),
      expectError('corrupt', /more than one/),
    );
  }
});

test('attributes that contradict the format are corrupt', () => {
  const noNul = attributeItems({ xattrs: [['user.a', Buffer.from('b')]] });
  noNul[16 + 6] = 0x61;
  const noName = attributeItems({ xattrs: [['', Buffer.from('b')]] });
  const permissions = attributeItems({ acl: { users: [[1, 8]] } });
  const unset = attributeItems({ acl: { users: [[1, -1]] } });
  const id = attributeItems({ acl: { groups: [[2 ** 32, 1]] } });
  const cut = attributeItems({ fcaps: Buffer.alloc(20) }).subarray(0, -1);
  const foreign = encodePxar({ type: 'directory', name, children: [] }, { version: 1 }).metadata;
  for (const bytes of [noNul, noName, permissions, unset, id, cut, cut.subarray(0, 15), foreign]) {
    assert.throws(() => decodeAttributes(bytes, 0o40755), expectError('corrupt'));
  }
});
