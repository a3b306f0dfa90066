import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPxar } from '../../../src/archives/pxar/pxar-archive.ts';
import { readAtBuffer } from '../../../src/read-at.ts';
import { type EncodeOptions, encodePxar } from '../../support/encode-pxar.ts';
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
import { describeEntry } from '../../support/read-pxar.ts';
import { countingReadAt } from '../../support/watched-read-at.ts';

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
    const archive = await openEncoded(encodePxar(tree, options));
    assert.deepEqual(await names(archive), ['a', 'empty', 'f', 'link', 'zlink']);
    assert.deepEqual(await names(archive, 'empty'), []);
    assert.equal(await contentOf(archive, 'a/x'), 'one');
    assert.equal(await contentOf(archive, 'link'), 'two');
    assert.equal(await contentOf(archive, 'zlink'), 'three');
    assert.equal(await archive.lookup(archive.root, Buffer.from('absent')), undefined);
  }
});

test('a hard link resolves to its file, under its own name', async () => {
  const archive = await openEncoded(encodePxar(tree, { version: 2 }));
  const link = await find(archive, 'link');
  assert.ok(link.kind === 'hardlink');
  const target = await archive.resolveHardLink(link);
  assert.equal(target.name.toString(), 'link');
  assert.equal(target.parent, archive.root);
  const file = await find(archive, 'a/deep/y');
  assert.equal(file.name.toString(), 'y');
  assert.equal(target.position, file.position);
  assert.deepEqual(await describeEntry(archive, target), await describeEntry(archive, file));
});

test('a hard link to anything but a file is corrupt', async () => {
  for (const target of ['a', 'empty', 'link']) {
    const broken = directory(
      '',
      ...[directory('a'), directory('empty'), file('f'), hardLink('link', 'f')],
      hardLink('z', target),
    );
    const archive = await openEncoded(encodePxar(broken, { version: 1 }));
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
    contentOf(await openEncoded({ ...ours, payload: other.payload }), 'f'),
    expectError('corrupt', /PAYLOAD/),
  );
});

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
