import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isPbsfsError } from '../../../src/errors.ts';
import type { PxarXattr } from '../../../src/formats/pxar/attributes.ts';
import { type EncodedFile, PxarEncoder } from '../../../src/formats/pxar/encode.ts';
import { encodePxar, type PxarAclItems, type PxarNode } from '../../support/encode-pxar.ts';
import { readGolden } from '../../support/golden.ts';
import { goldenTree } from '../../support/golden-pxar.ts';
import { needs } from '../../support/requirements.ts';

type WithMetadata = Exclude<PxarNode, { type: 'hardlink' }>;
type AclRow = readonly [tag: number, permissions: number, id: number];

/** The kernel's form of an ACL, written by its documentation. */
function aclXattr(name: string, rows: readonly AclRow[]): PxarXattr {
  const bytes = rows.map(([tag, permissions, id]) => {
    const row = Buffer.alloc(8);
    row.writeUInt16LE(tag, 0);
    row.writeUInt16LE(permissions, 2);
    row.writeUInt32LE(id, 4);
    return row;
  });
  return { name: Buffer.from(name), value: Buffer.concat([Buffer.from([2, 0, 0, 0]), ...bytes]) };
}

function aclXattrs(acl: PxarAclItems, permissions: number): PxarXattr[] {
  const xattrs: PxarXattr[] = [];
  const named = (tag: number, list: PxarAclItems['users'] = []): AclRow[] =>
    list.map(([id, bits]) => [tag, bits, id]);
  const unnamed = (tag: number, bits: number | undefined): AclRow[] =>
    bits === undefined ? [] : [[tag, bits, 0xffffffff]];
  if (acl.groupObject !== undefined) {
    xattrs.push(
      aclXattr('system.posix_acl_access', [
        ...unnamed(1, permissions >> 6),
        ...named(2, acl.users),
        ...unnamed(4, acl.groupObject),
        ...named(8, acl.groups),
        ...unnamed(0x10, (permissions >> 3) & 7),
        ...unnamed(0x20, permissions & 7),
      ]),
    );
  }
  if (acl.default !== undefined) {
    const [user, group, other, mask] = acl.default;
    xattrs.push(
      aclXattr('system.posix_acl_default', [
        ...unnamed(1, user),
        ...named(2, acl.defaultUsers),
        ...unnamed(4, group),
        ...named(8, acl.defaultGroups),
        ...unnamed(0x10, mask),
        ...unnamed(0x20, other),
      ]),
    );
  }
  return xattrs;
}

const typeBits = {
  directory: 0o040000,
  file: 0o100000,
  symlink: 0o120000,
  block: 0o060000,
  char: 0o020000,
  fifo: 0o010000,
  socket: 0o140000,
};

function metadataOf(node: WithMetadata): Parameters<PxarEncoder['startRoot']>[0] {
  const permissions = node.permissions ?? 0;
  return {
    mode: typeBits[node.type] | permissions,
    flags: Number(node.flags ?? 0n),
    uid: node.uid ?? 0,
    gid: node.gid ?? 0,
    mtime: node.mtime ?? { seconds: 0, nanos: 0 },
    xattrs: [
      ...(node.xattrs ?? []).map(([name, value]) => ({ name: Buffer.from(name), value })),
      ...(node.acl === undefined ? [] : aclXattrs(node.acl, permissions)),
      ...(node.fcaps === undefined
        ? []
        : [{ name: Buffer.from('security.capability'), value: node.fcaps }]),
    ],
    ...(node.quotaProjectId === undefined ? {} : { quotaProjectId: node.quotaProjectId }),
  };
}

/** The whole archive of a tree, by the product's encoder. */
function encode(root: PxarNode): Buffer {
  assert.ok(root.type === 'directory');
  const encoder = new PxarEncoder();
  const parts: Uint8Array[] = [encoder.startRoot(metadataOf(root))];
  const files = new Map<string, EncodedFile>();
  const addMembers = (members: readonly PxarNode[]): void => {
    for (const member of members) parts.push(...encodeMember(member));
    parts.push(encoder.endDirectory());
  };
  const encodeMember = (node: PxarNode): Uint8Array[] => {
    switch (node.type) {
      case 'hardlink': {
        const target = files.get(node.target.toString('latin1'));
        assert.ok(target);
        return [encoder.hardLink(node.name, target)];
      }
      case 'directory':
        parts.push(encoder.startDirectory(node.name, metadataOf(node)));
        addMembers(node.children);
        return [];
      case 'file': {
        const started = encoder.startFile(node.name, metadataOf(node), node.content.length);
        files.set(started.path.toString('latin1'), started);
        return [started.bytes, node.content];
      }
      case 'symlink':
        return [encoder.symlink(node.name, metadataOf(node), node.target)];
      case 'block':
      case 'char':
        return [encoder.device(node.name, metadataOf(node), node)];
      default:
        return [encoder.ipc(node.name, metadataOf(node))];
    }
  };
  addMembers(root.children);
  return Buffer.concat(parts);
}

test('the golden tree becomes the golden archive, byte for byte', { skip: needs('golden') }, () => {
  assert.ok(encode(goldenTree()).equals(readGolden('v2/rust/v1.pxar')));
});

const name = fc
  .uint8Array({ minLength: 1, maxLength: 255 })
  .map((bytes) => Buffer.from(bytes.map((byte) => (byte === 0 || byte === 0x2f ? 0xff : byte))))
  .filter((bytes) => !['.', '..'].includes(bytes.toString('latin1')));
const metadata = fc.record({
  name,
  permissions: fc.integer({ min: 0, max: 0o7777 }),
  uid: fc.nat(0xfffffffe),
  gid: fc.nat(0xfffffffe),
  mtime: fc.record({
    seconds: fc.integer({ min: -(2 ** 40), max: 2 ** 40 }),
    nanos: fc.nat(999_999_999),
  }),
  xattrs: fc.array(
    fc.tuple(
      fc.constantFrom('user.a', 'trusted.b'),
      fc.uint8Array({ maxLength: 50 }).map(Buffer.from),
    ),
    { maxLength: 2 },
  ),
});
const leaf: fc.Arbitrary<PxarNode> = fc
  .oneof(
    fc.record({
      type: fc.constant('file' as const),
      content: fc.uint8Array({ maxLength: 99 }).map((b) => Buffer.from(b)),
    }),
    fc.record({ type: fc.constant('symlink' as const), target: name }),
    fc.record({
      type: fc.constantFrom('block' as const, 'char' as const),
      major: fc.nat(),
      minor: fc.nat(),
    }),
    fc.record({ type: fc.constantFrom('fifo' as const, 'socket' as const) }),
  )
  .chain((node) => metadata.map((rest) => ({ ...rest, ...node }) as PxarNode));
const { tree } = fc.letrec<{ tree: PxarNode; member: PxarNode }>((tie) => ({
  member: fc.oneof({ maxDepth: 4 }, leaf, tie('tree')),
  tree: fc
    .tuple(
      metadata,
      fc.uniqueArray(tie('member'), {
        selector: (node) => node.name.toString('latin1'),
        maxLength: 12,
      }),
    )
    .map(([rest, children]) => ({ ...rest, type: 'directory', children })),
}));

test('any tree is written as an independent encoder writes it', () => {
  fc.assert(
    fc.property(tree, (root) => {
      const expected = encodePxar(root, { version: 1 }).metadata;
      assert.ok(encode(root).equals(expected));
    }),
    { numRuns: 200 },
  );
});

test('what the format cannot hold is refused', () => {
  const plain = metadataOf({ type: 'file', name: Buffer.from('a'), content: Buffer.alloc(0) });
  const attempts: ((encoder: PxarEncoder) => unknown)[] = [
    ...['', '.', '..', 'a/b', 'a\0', 'n'.repeat(4097)].map(
      (text) => (encoder: PxarEncoder) => encoder.ipc(Buffer.from(text), plain),
    ),
    (encoder) => encoder.symlink(Buffer.from('l'), plain, Buffer.alloc(4097, 'x')),
    (encoder) =>
      encoder.ipc(Buffer.from('x'), {
        ...plain,
        xattrs: [{ name: Buffer.from('user.big'), value: Buffer.alloc(65_791) }],
      }),
  ];
  for (const attempt of attempts) {
    const encoder = new PxarEncoder();
    encoder.startRoot({ ...plain, mode: 0o040755 });
    assert.throws(
      () => attempt(encoder),
      (error) => isPbsfsError(error, 'unsupported'),
    );
  }
});
