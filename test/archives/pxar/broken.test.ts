/** Broken goodbye tables, names that cannot be shown, and bytes that cannot be read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPxar } from '../../../src/archives/pxar/pxar-archive.ts';
import { type ReadAt, readAtBuffer } from '../../../src/read-at.ts';
import { type EncodedPxar, encodePxar } from '../../support/encode-pxar.ts';
import { expectError } from '../../support/expect-error.ts';
import {
  contentOf,
  directory,
  file,
  find,
  hardLink,
  names,
  openCounting,
  openEncoded,
  wide,
} from '../../support/pxar-nodes.ts';
import { listAll } from '../../support/read-pxar.ts';
import { countingReadAt, damagedReadAt } from '../../support/watched-read-at.ts';

const tree = directory(
  '',
  directory('a', file('x', 'one'), directory('deep', file('y', 'two'))),
  directory('empty'),
  file('f', 'three'),
  hardLink('link', 'a/deep/y'),
  hardLink('zlink', 'f'),
);

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
      const archive = await openEncoded(spoilTable(encodePxar(tree, { version }), 'a', spoil), {
        logger: (level, message) => warnings.push(`${level} ${message}`),
      });
      const a = await find(archive, 'a');
      assert.ok(a.kind === 'directory');
      assert.equal(await archive.lookup(a, Buffer.from('absent')), undefined);
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
  const archive = await openEncoded(encoded, { logger: (_, message) => warnings.push(message) });
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
  const archive = await openEncoded(
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

test('a table that could not be read is tried again, a broken one is remembered', async () => {
  const encoded = encodePxar(directory('', file('a'), file('b')), { version: 2 });
  const { table = 0, end } = encoded.places.get('') ?? { end: 0 };
  const good = readAtBuffer(encoded.metadata);
  const bad = damagedReadAt(good, table, end);
  let isBad = true;
  const source = countingReadAt({
    size: good.size,
    read: (offset, length) => (isBad ? bad : good).read(offset, length),
  });
  const archive = await openPxar(source);
  const { members, damaged } = await archive.readDirectory(archive.root);
  assert.deepEqual([members.length, damaged.length], [2, 1]);
  await assert.rejects(archive.lookup(archive.root, Buffer.from('absent')), expectError('corrupt'));
  isBad = false;
  assert.equal(await archive.lookup(archive.root, Buffer.from('absent')), undefined);
  assert.deepEqual((await archive.readDirectory(archive.root)).damaged, []);

  const broken = await openCounting(
    spoilTable(encoded, '', (bytes) => void bytes.fill(0, bytes.length - 24)),
  );
  await broken.archive.lookup(broken.archive.root, Buffer.from('a'));
  broken.metadata.reset();
  assert.ok(await broken.archive.lookup(broken.archive.root, Buffer.from('b')));
  assert.equal(broken.metadata.ranges.length, 0);
});
