import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinkCounts } from '../../src/archives/pxar/link-counts.ts';
import { openPxar } from '../../src/archives/pxar/pxar-archive.ts';
import { readAtBuffer, readBytes, type SparseReadAt } from '../../src/read-at.ts';
import type { Directory, OpenFile } from '../../src/tree/node.ts';
import { pxarDirectory } from '../../src/tree/pxar-tree.ts';
import { encodePxar, type PxarNode } from '../support/encode-pxar.ts';
import { expectError } from '../support/expect-error.ts';
import { readGolden } from '../support/golden.ts';
import { openGoldenArchive } from '../support/golden-archives.ts';
import {
  expectedListing,
  type ListedEntry,
  listTree,
  sortByPath,
} from '../support/pxar-listing.ts';
import { directory, file, hardLink } from '../support/pxar-nodes.ts';
import { needs } from '../support/requirements.ts';
import { damagedReadAt } from '../support/watched-read-at.ts';

interface Streams {
  readonly metadata: SparseReadAt;
  readonly payload?: SparseReadAt | undefined;
}

/** Handles opened and not yet closed. */
let openHandles = 0;

function handle(source: SparseReadAt): OpenFile {
  openHandles++;
  return {
    size: source.size,
    dataSize: source.dataSize,
    read: (offset, length, signal) => source.read(offset, length, signal),
    nextData: (offset) => source.nextData(offset),
    nextHole: (offset) => source.nextHole(offset),
    [Symbol.asyncDispose]: async () => {
      openHandles--;
    },
  };
}

async function openTree({ metadata, payload }: Streams, ino = 12345): Promise<Directory> {
  const archive = await openPxar(metadata, payload);
  return pxarDirectory(archive, {
    ino,
    links: new LinkCounts(archive),
    openStream: async (stream) => {
      const source = stream === 'payload' ? payload : metadata;
      assert.ok(source);
      return handle(source);
    },
  });
}

function dense(bytes: Buffer): SparseReadAt {
  const { size, read } = readAtBuffer(bytes);
  const nextData = (offset: number) => (offset < size ? offset : undefined);
  return { size, read, dataSize: size, nextData, nextHole: () => size };
}

function goldenStreams(name: string): Streams {
  return name.endsWith('.pxar')
    ? { metadata: dense(readGolden(`pxar-raw/${name}`)) }
    : {
        metadata: dense(readGolden(`pxar-raw/${name}.mpxar`)),
        payload: dense(readGolden(`pxar-raw/${name}.ppxar`)),
      };
}

/** The times of links and fifos in the small tree were those of the moment: each archive has its own. */
function withoutUnsetTimes(entries: readonly ListedEntry[]): unknown[] {
  return entries.map(({ mtime_ns, ...entry }) =>
    entry.type === 'l' || entry.type === 'p' ? entry : { mtime_ns, ...entry },
  );
}

test('raw golden archives are as the real client restored them', {
  skip: needs('golden'),
}, async () => {
  const listings: readonly (readonly [string, string])[] = [
    ['small.pxar', 'pxar-small.json'],
    ['small', 'pxar-small.json'],
    ['smallreuse', 'pxar-small.json'],
    ['extra.pxar', 'pxar-extra.json'],
    ['emptyroot.pxar', 'pxar-emptyroot.json'],
  ];
  for (const [raw, listing] of listings) {
    const found = await listTree(await openTree(goldenStreams(raw)));
    const expected = sortByPath(expectedListing(listing));
    assert.deepEqual(withoutUnsetTimes(found), withoutUnsetTimes(expected), raw);
  }
  assert.equal(openHandles, 0);
});

test('every archive of the golden datastore is as the real client restored it', {
  skip: needs('golden'),
}, async () => {
  const index = JSON.parse(readGolden('expected/pxar-index.json').toString()) as Record<
    string,
    string
  >;
  for (const [path, listing] of Object.entries(index)) {
    const at = path.lastIndexOf('/');
    const metadata = await openGoldenArchive(path.slice(0, at), `${path.slice(at + 1)}.didx`);
    const found = await listTree(await openTree({ metadata }));
    assert.deepEqual(found, sortByPath(expectedListing(listing)), path);
  }
  assert.equal(Object.keys(index).length, 14);
});

/** What the writer of the split golden archives kept of the source tree: no ACLs, links of files only. */
function withoutAcls(entries: readonly ListedEntry[]): unknown[] {
  const isKept = (name: string): boolean => !/^system[.]|^security[.]fixture$/.test(name);
  return entries.map(({ xattrs_b64 = {}, hardlink_group, nlink, ...entry }) => ({
    ...entry,
    ...(entry.type === 'f' ? { hardlink_group, nlink } : {}),
    xattrs: Object.entries(xattrs_b64).filter(([name]) => isKept(name)),
  }));
}

test('split archives of the golden datastore are as their source trees', {
  skip: needs('golden'),
}, async () => {
  const pairs: readonly (readonly [string, string])[] = [
    ['host/split/1700000000', 'source-alpha-v1.json'],
    ['host/split/1700086400', 'source-small.json'],
    ['host/splitenc/1700000000', 'source-small.json'],
  ];
  for (const [path, listing] of pairs) {
    const metadata = await openGoldenArchive(path, 'root.mpxar.didx');
    const payload = await openGoldenArchive(path, 'root.ppxar.didx');
    const found = await listTree(await openTree({ metadata, payload }));
    assert.deepEqual(withoutAcls(found), withoutAcls(sortByPath(expectedListing(listing))), path);
  }
});

function streams(node: PxarNode, version: 1 | 2 = 1): Streams {
  const { metadata, payload } = encodePxar(node, { version });
  return { metadata: dense(metadata), payload: payload && dense(payload) };
}

test('inodes are stable, differ between archives, and are shared by the names of a file', async () => {
  const node = directory('', directory('d', file('x')), hardLink('l', 'd/x'), file('y'));
  const inodes = async (ino: number): Promise<number[]> => {
    const root = await openTree(streams(node), ino);
    const d = await root.lookup(Buffer.from('d'));
    assert.ok(d?.kind === 'directory');
    const x = await d.lookup(Buffer.from('x'));
    const all = [root.ino, ...(await root.list()).map((entry) => entry.ino), x?.ino ?? -1];
    for (const one of all) assert.ok(Number.isSafeInteger(one) && one > 1);
    return all;
  };
  const first = await inodes(1000);
  assert.deepEqual(await inodes(1000), first);
  const [root, , link, , x] = first;
  assert.equal(root, 1000);
  assert.equal(link, x);
  assert.equal(new Set(first).size, 4);
  assert.equal(new Set([...first, ...(await inodes(1001))]).size, 8);
});

test('a listing gives the node of all but hard links, and a lookup the file of those', async () => {
  const root = await openTree(streams(directory('', file('a', 'text'), hardLink('b', 'a'))));
  const listed = await root.list();
  assert.deepEqual(
    listed.map(({ kind, node }) => [kind, node?.kind]),
    [
      ['file', 'file'],
      ['file', undefined],
    ],
  );
  const b = await root.lookup(Buffer.from('b'));
  assert.ok(b?.kind === 'file');
  assert.deepEqual([(await b.attributes()).nlink, (await b.attributes()).size], [2, 4]);
});

test('a file is read within its bounds, with the holes of its stream', async () => {
  const { metadata } = streams(directory('', file('a', 'x'.repeat(100)), file('b')));
  const start = 56 + 18 + 56 + 16;
  // A hole in the stream from 20 bytes before the content to its byte 60.
  const holed: SparseReadAt = {
    ...metadata,
    nextData: (offset) => (offset < start + 60 && offset >= start - 20 ? start + 60 : offset),
    nextHole: (offset) =>
      offset < start - 20 ? start - 20 : offset < start + 60 ? offset : metadata.size,
  };
  const root = await openTree({ metadata: holed });
  const a = await root.lookup(Buffer.from('a'));
  assert.ok(a?.kind === 'file');
  await using content = await a.open();
  assert.equal(content.size, 100);
  assert.equal((await readBytes(content, 90, 100)).toString(), 'x'.repeat(10));
  assert.deepEqual(await content.read(100, 10), []);
  assert.equal(content.dataSize, 40);
  assert.deepEqual(
    [content.nextData(0), content.nextData(70), content.nextData(100)],
    [60, 70, undefined],
  );
  assert.deepEqual(
    [content.nextHole(0), content.nextHole(60), content.nextHole(100)],
    [0, 100, 100],
  );
});

test('the handle of a file closes that of its stream, and an empty file needs none', async () => {
  const root = await openTree(streams(directory('', file('a'), file('empty', '')), 2));
  const a = await root.lookup(Buffer.from('a'));
  const empty = await root.lookup(Buffer.from('empty'));
  assert.ok(a?.kind === 'file' && empty?.kind === 'file');
  {
    await using _content = await a.open();
    await using nothing = await empty.open();
    assert.equal(openHandles, 1);
    assert.deepEqual([nothing.size, nothing.nextData(0), nothing.nextHole(0)], [0, undefined, 0]);
    assert.deepEqual(await nothing.read(0, 10), []);
  }
  assert.equal(openHandles, 0);
});

test('a damaged member is listed and fails by itself, under its name where that is known', async () => {
  const encoded = encodePxar(directory('', file('a'), file('b'), file('c'), file('d')), {
    version: 2,
  });
  const at = (name: string): number => encoded.places.get(name)?.position ?? 0;
  const bytes = Buffer.from(encoded.metadata);
  // The name of `b` loses its NUL, the mode of `c` its type.
  bytes.fill('x', at('b') + 17, at('b') + 18);
  bytes.writeUInt16LE(0o644, at('c') + 18 + 16);
  const metadata = dense(bytes);
  const root = await openTree({ metadata, payload: encoded.payload && dense(encoded.payload) });
  const lost = `damaged-entry-at-${at('b')}`;
  const listed = await root.list();
  assert.deepEqual(listed.map(({ name }) => name.toString()).sort(), ['a', 'c', 'd', lost].sort());
  for (const name of ['c', lost]) {
    const entry = listed.find((one) => one.name.toString() === name);
    assert.ok(entry?.node?.kind === 'file');
    await assert.rejects(entry.node.attributes(), expectError('corrupt'));
    await assert.rejects(entry.node.open(), expectError('corrupt'));
  }
  const found = await root.lookup(Buffer.from(lost));
  assert.equal(found?.ino, listed.find((one) => one.name.toString() === lost)?.ino);
  await assert.rejects(root.lookup(Buffer.from('c')), expectError('corrupt'));
  assert.equal(await root.lookup(Buffer.from('damaged-entry-at-1')), undefined);
  for (const name of ['a', 'd']) assert.equal((await root.lookup(Buffer.from(name)))?.kind, 'file');
});

test('a hard link that leads nowhere is listed, and fails when it is looked at', async () => {
  const root = await openTree(
    streams(directory('', directory('d'), hardLink('l', 'd'), file('z'))),
  );
  assert.deepEqual(
    (await root.list()).map(({ name }) => name.toString()),
    ['d', 'l', 'z'],
  );
  await assert.rejects(root.lookup(Buffer.from('l')), expectError('corrupt'));
});

test('names that no filesystem takes are left out', async () => {
  const root = await openTree(streams(directory('', file('a/b'), file('good'), file('..'))));
  assert.deepEqual(
    (await root.list()).map(({ name }) => name.toString()),
    ['good'],
  );
  assert.equal(await root.lookup(Buffer.from('..')), undefined);
});

test('damaged content is the error of its file alone', async () => {
  const { metadata, places } = encodePxar(
    directory('', file('a', 'a'.repeat(5000)), file('b', 'b'.repeat(5000))),
    { version: 1 },
  );
  const end = places.get('a')?.end ?? 0;
  const stream = dense(metadata);
  const damaged = damagedReadAt(stream, end - 100, end);
  const root = await openTree({ metadata: { ...stream, read: damaged.read } });
  assert.equal((await root.list()).length, 2);
  const read = async (name: string): Promise<string> => {
    const node = await root.lookup(Buffer.from(name));
    assert.ok(node?.kind === 'file');
    await using content = await node.open();
    return (await readBytes(content, 0, 5000)).toString();
  };
  await assert.rejects(read('a'), expectError('corrupt'));
  assert.equal(await read('b'), 'b'.repeat(5000));
});
