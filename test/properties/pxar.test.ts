/** Random trees, written by the test encoder and read back; and random damage to them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LinkCounts } from '../../src/archives/pxar/link-counts.ts';
import { openPxar, type PxarArchive } from '../../src/archives/pxar/pxar-archive.ts';
import { PbsfsError } from '../../src/errors.ts';
import type { PxarDirectory } from '../../src/formats/pxar/entry.ts';
import { readAtBuffer } from '../../src/read-at.ts';
import {
  type EncodeOptions,
  encodePxar,
  type PxarMetadata,
  type PxarNode,
} from '../support/encode-pxar.ts';
import { describeEntry, joinPath, listAll, walkAll } from '../support/read-pxar.ts';

const oddNames = [
  '...',
  '.a',
  ' ',
  '\\n',
  '\\\\',
  '-rf',
  '!',
  '\\xff\\xfe',
  'é',
  'é',
  '😀'.repeat(63),
  'x'.repeat(255),
];
const name = fc
  .oneof(
    fc.constantFrom(...oddNames).map((text) => Buffer.from(text)),
    fc.uint8Array({ minLength: 1, maxLength: 12 }).map((bytes) => Buffer.from(bytes)),
    fc.string({ minLength: 1, maxLength: 12 }).map((text) => Buffer.from(text)),
  )
  .filter(
    (bytes) => !/^\.{0,2}$/.test(bytes.toString()) && !bytes.includes(0) && !bytes.includes(0x2f),
  );

const id = fc.nat({ max: 0xffff_ffff });
const namedAcl = fc.uniqueArray(fc.tuple(id, fc.nat({ max: 7 })), {
  selector: ([one]) => one,
  maxLength: 3,
});
const acl = fc.record(
  { users: namedAcl, groups: namedAcl, groupObject: fc.nat({ max: 7 }) },
  { requiredKeys: [] },
);
const metadata: fc.Arbitrary<PxarMetadata> = fc.record(
  {
    permissions: fc.nat({ max: 0o7777 }),
    flags: fc.bigInt({ min: 0n, max: 0xffff_ffffn }),
    uid: id,
    gid: id,
    mtime: fc
      .tuple(fc.integer({ min: -(2 ** 40), max: 2 ** 40 }), fc.nat({ max: 999_999_999 }))
      .map(([seconds, nanos]) => ({ seconds, nanos })),
    xattrs: fc.array(
      fc.tuple(
        fc
          .string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 20 })
          .map((text) => `user.${text}`),
        fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
      ),
      { maxLength: 4 },
    ),
    acl,
    fcaps: fc.uint8Array({ minLength: 12, maxLength: 24 }).map((bytes) => Buffer.from(bytes)),
    quotaProjectId: fc.nat(),
  },
  { requiredKeys: [] },
);

const number32 = fc.nat({ max: 0xffff_ffff });
const content = fc.uint8Array({ maxLength: 3000 }).map((bytes) => Buffer.from(bytes));
const target = fc
  .uint8Array({ minLength: 1, maxLength: 300 })
  .map((bytes) => Buffer.from(bytes.map((byte) => byte || 1)));

const leaf: fc.Arbitrary<PxarNode> = fc.oneof(
  fc
    .tuple(name, metadata, content)
    .map(([n, m, c]) => ({ ...m, type: 'file' as const, name: n, content: c })),
  fc
    .tuple(name, metadata, target)
    .map(([n, m, t]) => ({ ...m, type: 'symlink' as const, name: n, target: t })),
  fc
    .tuple(name, metadata, fc.constantFrom('block' as const, 'char' as const), number32, number32)
    .map(([n, m, type, major, minor]) => ({ ...m, type, name: n, major, minor })),
  fc
    .tuple(name, metadata, fc.constantFrom('fifo' as const, 'socket' as const))
    .map(([n, m, type]) => ({ ...m, type, name: n })),
);

const { tree } = fc.letrec<{ tree: PxarNode; node: PxarNode }>((tie) => ({
  node: fc.oneof({ depthSize: 'small', withCrossShrink: true }, leaf, tie('tree')),
  tree: fc
    .tuple(name, metadata, fc.uniqueArray(tie('node'), { selector: nodeKey, maxLength: 8 }))
    .map(([n, m, children]) => ({ ...m, type: 'directory' as const, name: n, children })),
}));

function nodeKey(node: PxarNode): string {
  return node.name.toString('latin1');
}

/** The root of an archive with hard links to files that come before them. */
const root = fc
  .tuple(tree, fc.array(fc.tuple(name, fc.nat()), { maxLength: 4 }))
  .map(([top, links]) => {
    assert.ok(top.type === 'directory');
    const files = pathsOf(top).filter(({ node }) => node.type === 'file');
    const added: PxarNode[] = [];
    for (const [linkName, pick] of files.length === 0 ? [] : links) {
      const taken = [...top.children, ...added].some((node) => node.name.equals(linkName));
      const file = files[pick % files.length];
      if (taken || file === undefined) continue;
      added.push({ type: 'hardlink', name: linkName, target: Buffer.from(file.path, 'latin1') });
    }
    return { ...top, name: Buffer.alloc(0), children: [...top.children, ...added] };
  });

function pathsOf(top: PxarNode, path = ''): { path: string; node: PxarNode }[] {
  const below = top.type === 'directory' ? top.children : [];
  return [
    { path, node: top },
    ...below.flatMap((child) => pathsOf(child, joinPath(path, child.name))),
  ];
}

const options: fc.Arbitrary<EncodeOptions> = fc.oneof(
  fc.constant({ version: 1 as const }),
  fc
    .record({ prelude: content, gap: content }, { requiredKeys: [] })
    .map((rest) => ({ version: 2 as const, ...rest })),
);

const types: Readonly<Record<PxarNode['type'], number>> = {
  directory: 0o040000,
  file: 0o100000,
  symlink: 0o120000,
  block: 0o060000,
  char: 0o020000,
  fifo: 0o010000,
  socket: 0o140000,
  hardlink: 0,
};

/** What reading has to give for a node; of attributes, what is stored as it is. */
function expected(node: Exclude<PxarNode, { type: 'hardlink' }>): Record<string, unknown> {
  const xattrs = (node.xattrs ?? []).map(([key, value]) => `${key} ${value.toString('hex')}`);
  if (node.fcaps !== undefined) xattrs.push(`security.capability ${node.fcaps.toString('hex')}`);
  return {
    kind: node.type,
    mode: types[node.type] | (node.permissions ?? 0o644),
    flags: Number(node.flags ?? 0n),
    uid: node.uid ?? 0,
    gid: node.gid ?? 0,
    mtime: node.mtime ?? { seconds: 1_700_000_000, nanos: 0 },
    quotaProjectId: node.quotaProjectId,
    xattrs: xattrs.sort(),
    ...(node.type === 'file' ? { size: node.content.length, content: node.content } : {}),
    ...(node.type === 'symlink' ? { target: node.target } : {}),
    ...(node.type === 'block' || node.type === 'char'
      ? { rdev: { major: node.major, minor: node.minor } }
      : {}),
  };
}

/** Without ACLs, whose binary form has tests of its own. */
function withoutAcl(described: Record<string, unknown>): Record<string, unknown> {
  const xattrs = described['xattrs'] as string[];
  return { ...described, xattrs: xattrs.filter((one) => !one.startsWith('system.posix_acl')) };
}

async function open(encoded: ReturnType<typeof encodePxar>): Promise<PxarArchive> {
  return await openPxar(
    readAtBuffer(encoded.metadata),
    encoded.payload && readAtBuffer(encoded.payload),
  );
}

test('every archive reads as the tree that it was written from', async () => {
  await fc.assert(
    fc.asyncProperty(root, options, async (top, how) => {
      const archive = await open(encodePxar(top, how));
      const model = pathsOf(top);
      const nodes = new Map(model.map(({ path, node }) => [path, node]));
      const listed = await listAll(archive);
      assert.deepEqual(
        listed.map(({ path }) => path),
        model.map(({ path }) => path),
      );
      const places = (found: typeof listed) =>
        found.map(({ path, entry }) => [path, entry.position]);
      assert.deepEqual(places(await walkAll(archive)), places(listed));
      const links = new LinkCounts(archive);
      const positions = new Map(listed.map(({ path, entry }) => [path, entry.position]));
      const linksTo = (path: string): number =>
        model.filter(
          ({ node }) => node.type === 'hardlink' && node.target.toString('latin1') === path,
        ).length;
      for (const { path, entry } of listed) {
        let node = nodes.get(path);
        let filePath = path;
        if (node?.type === 'hardlink') {
          assert.equal(entry.kind, 'hardlink');
          filePath = node.target.toString('latin1');
          node = nodes.get(filePath);
        }
        assert.ok(node !== undefined && node.type !== 'hardlink');
        assert.deepEqual(withoutAcl(await describeEntry(archive, entry)), expected(node), path);
        if (entry.parent !== undefined) {
          assert.deepEqual(await archive.lookup(entry.parent, entry.name), entry);
        }
        if (node.type === 'file') {
          const position = positions.get(filePath) ?? -1;
          assert.equal(await links.ofFile(position), 1 + linksTo(filePath));
        }
        if (node.type === 'directory') {
          const inside = node.children.filter((child) => child.type === 'directory').length;
          assert.equal(await links.ofDirectory(entry.position), 2 + inside);
        }
      }
    }),
    { numRuns: 100 },
  );
});

/** Reads whatever can be read, and fails for an error that is not our own. */
async function readAnything(
  bytes: Buffer,
  payload: Buffer | undefined,
  names: readonly Buffer[],
): Promise<void> {
  let actions = 0;
  const guard = async <T>(action: () => Promise<T>): Promise<T | undefined> => {
    assert.ok(actions++ < 200_000, 'reads without end');
    try {
      return await action();
    } catch (error) {
      assert.ok(error instanceof PbsfsError, String(error));
      assert.ok(['corrupt', 'unsupported'].includes(error.code), `${error.code}: ${error.message}`);
      return undefined;
    }
  };
  const archive = await guard(() =>
    openPxar(readAtBuffer(bytes), payload && readAtBuffer(payload)),
  );
  if (archive === undefined) return;
  const visit = async (directory: PxarDirectory, depth: number): Promise<void> => {
    const listing = await guard(() => archive.readDirectory(directory));
    for (const entry of listing?.members ?? []) {
      if (entry.kind === 'directory') {
        assert.ok(depth < 100);
        await visit(entry, depth + 1);
      } else await guard(() => describeEntry(archive, entry));
    }
    for (const one of names) await guard(() => archive.lookup(directory, one));
  };
  await visit(archive.root, 0);
  let steps = 0;
  for await (const step of archive.walk()) {
    assert.ok(steps++ < bytes.length, 'a pass without end');
    if (step.step === 'leaf') await guard(() => describeEntry(archive, step.entry));
  }
}

test('whatever is changed in an archive, reading it ends, and with our own errors', async () => {
  const change = fc.tuple(
    fc.nat(),
    fc.constantFrom(1, 2, 8),
    fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  );
  await fc.assert(
    fc.asyncProperty(
      root,
      options,
      fc.array(change, { minLength: 1, maxLength: 5 }),
      fc.nat(),
      async (top, how, changes, cut) => {
        const { metadata, payload } = encodePxar(top, how);
        const bytes = Buffer.from(metadata);
        for (const [at, width, value] of changes) {
          const place = at % (bytes.length - 8);
          if (width === 8) bytes.writeBigUInt64LE(value, place);
          else bytes.writeUIntLE(Number(value & 0xffn), place, width);
        }
        const end = cut % 4 === 0 ? cut % bytes.length : bytes.length;
        const names = pathsOf(top).map(({ node }) => node.name);
        await readAnything(bytes.subarray(0, end), payload, names.slice(0, 10));
      },
    ),
    { numRuns: 150 },
  );
});

test('whatever is changed in a goodbye table, what is listed is in the archive', async () => {
  const change = fc.tuple(fc.nat(), fc.bigInt({ min: 0n, max: 300n }));
  await fc.assert(
    fc.asyncProperty(
      root,
      options,
      fc.array(change, { minLength: 1, maxLength: 3 }),
      async (top, how, changes) => {
        const { metadata, payload, places } = encodePxar(top, how);
        const bytes = Buffer.from(metadata);
        const tables = [...places.values()].filter(({ table }) => table !== undefined);
        for (const [at, value] of changes) {
          const { table = 0, end } = tables[at % tables.length] ?? { end: 0 };
          bytes.writeBigUInt64LE(value, table + 16 + ((at * 8) % (end - table - 16)));
        }
        const archive = await openPxar(readAtBuffer(bytes), payload && readAtBuffer(payload));
        const model = pathsOf(top).map(({ path }) => path);
        const listed = (await listAll(archive)).map(({ path }) => path);
        assert.deepEqual(listed, model);
      },
    ),
    { numRuns: 100 },
  );
});
