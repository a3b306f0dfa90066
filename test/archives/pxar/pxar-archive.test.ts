import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  openPxar,
  type PxarArchive,
  type PxarOptions,
} from '../../../src/archives/pxar/pxar-archive.ts';
import type { PxarEntry } from '../../../src/formats/pxar/entry.ts';
import { type ReadAt, readAtBuffer, readBytes } from '../../../src/read-at.ts';
import {
  type EncodedPxar,
  type EncodeOptions,
  encodePxar,
  type PxarNode,
} from '../../support/encode-pxar.ts';
import { expectError } from '../../support/expect-error.ts';
import { listAll } from '../../support/read-pxar.ts';
import { countingReadAt, damagedReadAt } from '../../support/watched-read-at.ts';

const file = (name: string, content: string | Buffer = name): PxarNode => ({
  type: 'file',
  name: Buffer.from(name),
  content: Buffer.from(content),
});
const directory = (name: string, ...children: readonly PxarNode[]): PxarNode => ({
  type: 'directory',
  name: Buffer.from(name),
  children,
});
const hardLink = (name: string, target: string): PxarNode => ({
  type: 'hardlink',
  name: Buffer.from(name),
  target: Buffer.from(target),
});

async function open(
  { metadata, payload }: EncodedPxar,
  options?: PxarOptions,
): Promise<PxarArchive> {
  return await openPxar(
    readAtBuffer(metadata),
    payload === undefined ? undefined : readAtBuffer(payload),
    options,
  );
}

async function find(archive: PxarArchive, path: string): Promise<PxarEntry> {
  let entry: PxarEntry | undefined = archive.root;
  for (const name of path.split('/')) {
    assert.ok(entry?.kind === 'directory', path);
    entry = await archive.lookup(entry, Buffer.from(name));
  }
  assert.ok(entry, path);
  return entry;
}

async function contentOf(archive: PxarArchive, path: string): Promise<string> {
  let entry = await find(archive, path);
  if (entry.kind === 'hardlink') entry = await archive.resolveHardLink(entry);
  assert.ok(entry.kind === 'file', path);
  const content = await archive.openContent(entry);
  return (await readBytes(content, 0, content.size + 1)).toString();
}

async function names(archive: PxarArchive, path = ''): Promise<string[]> {
  const entry = path === '' ? archive.root : await find(archive, path);
  assert.ok(entry.kind === 'directory');
  const { members } = await archive.readDirectory(entry);
  return members.map(({ name }) => name.toString());
}

const versions: readonly EncodeOptions[] = [
  { version: 1 },
  { version: 2 },
  { version: 2, prelude: Buffer.from('{}'), gap: Buffer.alloc(40, 7) },
];
const tree = directory(
  '',
  directory('a', file('x', 'one'), directory('deep', file('y', 'two'))),
  directory('empty'),
  file('f', 'three'),
  hardLink('link', 'a/deep/y'),
  hardLink('zlink', 'f'),
);

test('members, contents and hard links are found by name in each version of the format', async () => {
  for (const options of versions) {
    const archive = await open(encodePxar(tree, options));
    assert.deepEqual(await names(archive), ['a', 'empty', 'f', 'link', 'zlink']);
    assert.deepEqual(await names(archive, 'empty'), []);
    assert.equal(await contentOf(archive, 'a/x'), 'one');
    assert.equal(await contentOf(archive, 'link'), 'two');
    assert.equal(await contentOf(archive, 'zlink'), 'three');
    assert.equal(await archive.lookup(archive.root, Buffer.from('absent')), undefined);
  }
});

test('a hard link resolves to its file, under its own name', async () => {
  const archive = await open(encodePxar(tree, { version: 2 }));
  const link = await find(archive, 'link');
  assert.ok(link.kind === 'hardlink');
  const target = await archive.resolveHardLink(link);
  const { name, parent, ...rest } = await find(archive, 'a/deep/y');
  assert.deepEqual(target, { ...rest, name: link.name, parent: archive.root });
  assert.notEqual(name, parent);
});

test('a hard link to anything but a file is corrupt', async () => {
  for (const target of ['a', 'empty', 'link']) {
    const broken = directory(
      '',
      ...[directory('a'), directory('empty'), file('f'), hardLink('link', 'f')],
      hardLink('z', target),
    );
    const archive = await open(encodePxar(broken, { version: 1 }));
    const link = await find(archive, 'z');
    assert.ok(link.kind === 'hardlink');
    await assert.rejects(archive.resolveHardLink(link), expectError('corrupt', /hard link/));
  }
});

test('without its payload stream a split archive lists, and tells why it cannot be read', async () => {
  const { metadata } = encodePxar(directory('', file('empty', ''), file('f')), { version: 2 });
  const archive = await openPxar(readAtBuffer(metadata));
  assert.deepEqual(await names(archive), ['empty', 'f']);
  assert.equal(await contentOf(archive, 'empty'), '');
  await assert.rejects(contentOf(archive, 'f'), expectError('corrupt', /payload stream/));
});

test('content within the metadata of a split archive is refused', async () => {
  const { metadata } = encodePxar(directory('', file('f')), { version: 1 });
  const archive = await openPxar(readAtBuffer(metadata), readAtBuffer(Buffer.alloc(100)));
  await assert.rejects(contentOf(archive, 'f'), expectError('corrupt', /within the metadata/));
});

test('a payload of another pair is refused', async () => {
  const ours = encodePxar(directory('', file('f', 'mine')), { version: 2 });
  const other = encodePxar(directory('', file('f', 'other')), { version: 2 });
  await assert.rejects(
    contentOf(await open({ ...ours, payload: other.payload }), 'f'),
    expectError('corrupt', /PAYLOAD/),
  );
});

/** A directory of `count` files of `size` bytes. */
function wide(count: number, size: number): PxarNode {
  return directory(
    '',
    ...Array.from({ length: count }, (_, i) =>
      file(String(i).padStart(6, '0'), Buffer.alloc(size, i)),
    ),
  );
}

async function openCounting(encoded: EncodedPxar) {
  const metadata = countingReadAt(readAtBuffer(encoded.metadata));
  const payload = countingReadAt(readAtBuffer(encoded.payload ?? Buffer.alloc(0)));
  const archive = await openPxar(metadata, encoded.payload === undefined ? undefined : payload);
  metadata.reset();
  return { archive, metadata, payload };
}

test('listing a split archive reads its metadata in a few large reads, and no payload', async () => {
  const { archive, metadata, payload } = await openCounting(
    encodePxar(wide(5000, 10), { version: 2 }),
  );
  assert.equal((await archive.readDirectory(archive.root)).members.length, 5000);
  assert.equal(payload.ranges.length, 0);
  assert.ok(metadata.ranges.length <= 10, `${metadata.ranges.length} reads`);
  assert.ok(metadata.bytes < metadata.size * 1.1, `${metadata.bytes} of ${metadata.size} bytes`);
});

test('listing large files of one stream reads a little for each, not their content', async () => {
  const { archive, metadata } = await openCounting(encodePxar(wide(200, 50_000), { version: 1 }));
  assert.equal((await archive.readDirectory(archive.root)).members.length, 200);
  assert.ok(metadata.ranges.length <= 203, `${metadata.ranges.length} reads`);
  assert.ok(metadata.bytes < 200 * 600 + 10_000, `${metadata.bytes} bytes`);
});

test('a lookup reads the table once, and then one header a name', async () => {
  const { archive, metadata } = await openCounting(encodePxar(wide(5000, 10), { version: 2 }));
  assert.ok(await archive.lookup(archive.root, Buffer.from('004711')));
  assert.ok(metadata.ranges.length <= 3, `${metadata.ranges.length} reads`);
  metadata.reset();
  for (const name of ['000000', '002500', '004999']) {
    assert.ok(await archive.lookup(archive.root, Buffer.from(name)));
  }
  assert.equal(metadata.ranges.length, 3);
  assert.ok(metadata.bytes <= 3 * 1024);
  metadata.reset();
  assert.equal(await archive.lookup(archive.root, Buffer.from('absent')), undefined);
  assert.equal(metadata.ranges.length, 0);
});

test('opening reads the start of the metadata only', async () => {
  const metadata = countingReadAt(
    readAtBuffer(encodePxar(wide(1000, 10), { version: 2 }).metadata),
  );
  await openPxar(metadata);
  assert.deepEqual(metadata.ranges, [{ offset: 0, length: 512 }]);
});

test('listing leaves long attributes unread', async () => {
  const xattrs = [['user.big', Buffer.alloc(60_000)]] as const;
  const children = Array.from({ length: 50 }, (_, i) => ({ ...file(`${i}`), xattrs }));
  const { archive, metadata } = await openCounting(
    encodePxar(directory('', ...children), { version: 2 }),
  );
  const { members } = await archive.readDirectory(archive.root);
  assert.ok(metadata.bytes < 50 * 6000, `${metadata.bytes} bytes`);
  const [first] = members;
  assert.ok(first?.kind === 'file');
  assert.equal((await archive.readAttributes(first)).xattrs[0]?.value.length, 60_000);
});

/** `bytes` with the goodbye table at `place` spoiled by `spoil`, which gets a view of it. */
function spoilTable(
  encoded: EncodedPxar,
  path: string,
  spoil: (table: Buffer) => void,
): EncodedPxar {
  const place = encoded.places.get(path);
  assert.ok(place?.table !== undefined);
  const metadata = Buffer.from(encoded.metadata);
  spoil(metadata.subarray(place.table, place.end));
  return { ...encoded, metadata };
}

const spoiled: Readonly<Record<string, (table: Buffer) => void>> = {
  'without its marker': (table) => void table.fill(0, table.length - 24, table.length - 16),
  'with another size': (table) => void table.writeBigUInt64LE(64n, table.length - 8),
  'with a row out of the directory': (table) => void table.writeBigUInt64LE(2n ** 40n, 24),
  'with a row into the middle of a member': (table) =>
    void table.writeBigUInt64LE(table.readBigUInt64LE(24) - 5n, 24),
  'with hashes of another kind': (table) => {
    for (let at = 16; at < table.length - 24; at += 24) table.writeBigUInt64LE(BigInt(at), at);
  },
};

for (const [what, spoil] of Object.entries(spoiled)) {
  test(`a directory whose table is ${what} is read all the same, with one warning`, async () => {
    for (const version of [1, 2] as const) {
      const warnings: string[] = [];
      const archive = await open(spoilTable(encodePxar(tree, { version }), 'a', spoil), {
        logger: (level, message) => warnings.push(`${level} ${message}`),
      });
      assert.equal(
        await archive.lookup(
          (await archive.readDirectory(archive.root)).members.find(
            (one) => one.kind === 'directory',
          ) ?? archive.root,
          Buffer.from('absent'),
        ),
        undefined,
      );
      assert.deepEqual(await names(archive, 'a'), ['x', 'deep']);
      assert.equal(await contentOf(archive, 'a/x'), 'one');
      assert.equal(await contentOf(archive, 'a/deep/y'), 'two');
      assert.equal(await contentOf(archive, 'f'), 'three');
      assert.equal(warnings.length, 1, warnings.join('\n'));
      assert.match(warnings[0] ?? '', /^warn directory 'a': /);
    }
  });
}

test('a table out of search order finds every name, with one warning', async () => {
  const warnings: string[] = [];
  const encoded = spoilTable(encodePxar(wide(100, 1), { version: 2 }), '', (table) => {
    const rows = Buffer.from(table.subarray(16, -24));
    for (let i = 0; i < 100; i++) rows.copy(table, 16 + 24 * i, 24 * (99 - i), 24 * (100 - i));
  });
  const { archive, metadata } = await (async () => {
    const counting = countingReadAt(readAtBuffer(encoded.metadata));
    const logger = (_: string, message: string): unknown => warnings.push(message);
    return { archive: await openPxar(counting, undefined, { logger }), metadata: counting };
  })();
  for (let i = 0; i < 100; i++) await find(archive, String(i).padStart(6, '0'));
  assert.equal(await archive.lookup(archive.root, Buffer.from('absent')), undefined);
  assert.equal((await archive.readDirectory(archive.root)).members.length, 100);
  assert.match(warnings.join(), /^directory '\/': its goodbye table is not in search order$/);
  assert.ok(metadata.ranges.length < 110);
});

test('names that no filesystem takes are left out, with one warning for their directory', async () => {
  const warnings: string[] = [];
  const bad = ['.', '..', 'a/b', 'a\0b', 'x'.repeat(256)];
  const encoded = encodePxar(
    directory(
      '',
      directory('d', ...bad.map((name) => directory(name, file('below'))), file('good')),
    ),
    { version: 2 },
  );
  const archive = await open(encoded, { logger: (_, message) => warnings.push(message) });
  const d = await find(archive, 'd');
  assert.ok(d.kind === 'directory');
  for (let i = 0; i < 2; i++) {
    const { members, damaged } = await archive.readDirectory(d);
    assert.deepEqual(
      members.map(({ name }) => name.toString()),
      ['good'],
    );
    assert.deepEqual(new Set(damaged.map(({ error }) => error.code)), new Set(['unsupported']));
    assert.equal(damaged.length, bad.length);
  }
  for (const name of bad) assert.equal(await archive.lookup(d, Buffer.from(name)), undefined);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /directory 'd': .* cannot be shown/);
});

test('of members with one name the first is shown', async () => {
  const archive = await open(
    encodePxar(directory('', file('a', 'first'), file('a', 'second'), file('b')), { version: 1 }),
  );
  assert.deepEqual(await names(archive), ['a', 'b']);
  assert.equal(await contentOf(archive, 'a'), 'first');
});

test('damage in a member is that of the member alone', async () => {
  for (const version of [1, 2] as const) {
    const encoded = encodePxar(wide(20, 5000), { version });
    const place = encoded.places.get('000007');
    assert.ok(place);
    const metadata = damagedReadAt(
      readAtBuffer(encoded.metadata),
      place.position,
      place.position + 20,
    );
    const payload = encoded.payload && readAtBuffer(encoded.payload);
    const archive = await openPxar(metadata, payload);
    const { members, damaged } = await archive.readDirectory(archive.root);
    assert.equal(members.length, 19);
    assert.deepEqual(
      damaged.map(({ position, error }) => [position, error.code]),
      [[place.position, 'corrupt']],
    );
    await find(archive, '000006');
    await find(archive, '000008');
    await assert.rejects(find(archive, '000007'), expectError('corrupt'));
  }
});

test('where damage may hide a name, a lookup is an error and not an absence', async () => {
  const encoded = encodePxar(directory('', file('a'), file('b'), file('c')), { version: 2 });
  const place = encoded.places.get('b');
  assert.ok(place);
  // The table is damaged as well, so a pass over the directory has to do, and stops at `b`.
  const metadata: ReadAt = damagedReadAt(
    readAtBuffer(spoilTable(encoded, '', (table) => void table.fill(0)).metadata),
    place.position,
    place.position + 1,
  );
  const archive = await openPxar(metadata);
  assert.ok(await archive.lookup(archive.root, Buffer.from('a')));
  for (const name of ['b', 'c', 'absent']) {
    await assert.rejects(archive.lookup(archive.root, Buffer.from(name)), expectError('corrupt'));
  }
});

test('that a server is gone is an error of the whole listing', async () => {
  const { metadata, places } = encodePxar(wide(20, 5000), { version: 1 });
  const { position } = places.get('000007') ?? { position: 0 };
  const gone = damagedReadAt(readAtBuffer(metadata), position, position + 1, 'unreachable');
  const archive = await openPxar(gone);
  await assert.rejects(archive.readDirectory(archive.root), expectError('unreachable'));
  await assert.rejects(listAll(archive), expectError('unreachable'));
});

test('what is no archive is refused when it is opened', async () => {
  const good = encodePxar(tree, { version: 2 }).metadata;
  const version3 = Buffer.from(good);
  version3[16] = 3;
  const cases: readonly (readonly [Buffer, 'corrupt' | 'unsupported'])[] = [
    [Buffer.alloc(0), 'corrupt'],
    [Buffer.alloc(100), 'corrupt'],
    [good.subarray(0, 10), 'corrupt'],
    [good.subarray(0, 24), 'corrupt'],
    [good.subarray(0, 60), 'corrupt'],
    [version3, 'unsupported'],
    // A file in place of the root.
    [encodePxar(directory('', file('f')), { version: 1 }).metadata.subarray(56 + 18), 'corrupt'],
  ];
  for (const [bytes, code] of cases) {
    await assert.rejects(openPxar(readAtBuffer(bytes)), expectError(code), `${bytes.length} bytes`);
  }
});

test('errors name the entry by its path', async () => {
  const { metadata } = encodePxar(directory('', directory('d', file('f'))), { version: 2 });
  const archive = await openPxar(readAtBuffer(metadata));
  const entry = await find(archive, 'd/f');
  assert.ok(entry.kind === 'file');
  await assert.rejects(archive.locateContent(entry), (error: unknown) => {
    assert.ok(expectError('corrupt')(error) && error instanceof Error && 'context' in error);
    assert.deepEqual(error.context, { path: 'd/f' });
    return true;
  });
});

test('a damaged chunk is asked for a few times only, however many entries lie in it', async () => {
  const { metadata, places } = encodePxar(wide(2000, 100), { version: 1 });
  const start = places.get('000500')?.position ?? 0;
  const end = places.get('001500')?.position ?? 0;
  const counting = countingReadAt(damagedReadAt(readAtBuffer(metadata), start, end));
  const archive = await openPxar(counting);
  counting.reset();
  const { members, damaged } = await archive.readDirectory(archive.root);
  assert.deepEqual([members.length, damaged.length], [1000, 1000]);
  const intoDamage = counting.ranges.filter(
    ({ offset, length }) => offset < end && offset + length > start,
  );
  assert.ok(intoDamage.length < 20, `${intoDamage.length} reads`);
});
