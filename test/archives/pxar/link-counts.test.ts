import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openCatalog } from '../../../src/archives/catalog.ts';
import { LinkCounts } from '../../../src/archives/pxar/link-counts.ts';
import { openPxar } from '../../../src/archives/pxar/pxar-archive.ts';
import { PbsfsError } from '../../../src/errors.ts';
import { readAtBuffer } from '../../../src/read-at.ts';
import { type CatalogNode, encodeCatalog } from '../../support/encode-catalog.ts';
import { encodePxar, type PxarNode } from '../../support/encode-pxar.ts';
import { expectError } from '../../support/expect-error.ts';
import { directory, file, hardLink } from '../../support/pxar-nodes.ts';
import { countingReadAt, damagedReadAt } from '../../support/watched-read-at.ts';

const name = Buffer.from;
const tree = directory(
  '',
  directory('a', file('x'), file('y'), directory('in')),
  directory('b', hardLink('x1', 'a/x'), directory('c', hardLink('x2', 'a/x')), directory('d')),
  hardLink('y1', 'a/y'),
);

/** The catalog of the tree, as a client writes it. */
const archiveName = 'root.pxar.didx';
function catalogOf(node: PxarNode): CatalogNode {
  switch (node.type) {
    case 'directory':
      return { type: 'd', name: node.name, children: node.children.map(catalogOf) };
    case 'hardlink':
      return { type: 'h', name: node.name };
    default:
      return { type: 'f', name: node.name, size: 1, mtime: 0 };
  }
}
const catalog = encodeCatalog([
  { type: 'd', name: name('other.pxar.didx'), children: [{ type: 'h', name: name('y1') }] },
  { ...catalogOf({ ...tree, name: name(archiveName) }) },
]);

async function open(version: 1 | 2) {
  const encoded = encodePxar(tree, { version });
  const source = countingReadAt(readAtBuffer(encoded.metadata));
  const archive = await openPxar(source, encoded.payload && readAtBuffer(encoded.payload));
  source.reset();
  const position = (path: string): number => encoded.places.get(path)?.position ?? -1;
  const meet = async (links: LinkCounts, path: string): Promise<void> => {
    const [parent = '', last = ''] = path.includes('/') ? path.split('/') : ['', path];
    const above = parent === '' ? archive.root : await archive.lookup(archive.root, name(parent));
    assert.ok(above?.kind === 'directory');
    const found = await archive.lookup(above, name(last));
    assert.ok(found?.kind === 'hardlink');
    links.meet(found);
  };
  const count = async (links: LinkCounts): Promise<number[]> => [
    await links.ofFile(position('a/x')),
    await links.ofFile(position('a/y')),
  ];
  return { archive, source, position, meet, count };
}

test('in a small archive every count is right at once', async () => {
  for (const version of [1, 2] as const) {
    const { archive, position, count } = await open(version);
    const links = new LinkCounts(archive);
    assert.deepEqual(await count(links), [3, 2]);
    const directories = ['', 'a', 'b', 'b/c', 'b/d'].map(async (path) =>
      links.ofDirectory(position(path)),
    );
    assert.deepEqual(await Promise.all(directories), [4, 3, 4, 2, 2]);
  }
});

test('all who ask share one pass', async () => {
  const { archive, source, count } = await open(2);
  const links = new LinkCounts(archive);
  await Promise.all([count(links), count(links), links.ofDirectory(0)]);
  const reads = source.ranges.length;
  await count(links);
  assert.equal(source.ranges.length, reads);
  assert.ok(source.bytes <= archive.metadataSize * 1.5);
});

test('a large split archive is not read before a hard link was met', async () => {
  const { archive, source, position, meet, count } = await open(2);
  const links = new LinkCounts(archive, { passUpTo: 10 });
  assert.deepEqual(await count(links), [1, 1]);
  assert.equal(await links.ofDirectory(position('b')), 1);
  assert.equal(source.ranges.length, 0);
  await meet(links, 'y1');
  assert.deepEqual(await count(links), [3, 2]);
  assert.equal(await links.ofDirectory(position('b')), 4);
});

test('in a large archive of one stream the catalog tells where the hard links are', async () => {
  const { archive, source, position, count } = await open(1);
  let opened = 0;
  const links = new LinkCounts(archive, {
    passUpTo: catalog.length,
    catalog: {
      archive: archiveName,
      open: async () => {
        opened++;
        return await openCatalog(readAtBuffer(catalog));
      },
    },
  });
  assert.ok(archive.metadataSize > catalog.length);
  assert.deepEqual(await count(links), [3, 2]);
  assert.equal(await links.ofDirectory(position('b')), 1);
  assert.ok(opened > 0);
  const read = source.ranges.map(({ offset, length }) => [offset, offset + length]);
  assert.ok(read.length > 0);
});

test('a large catalog is not read before a hard link was met', async () => {
  const { archive, source, meet, count } = await open(1);
  const reads = countingReadAt(readAtBuffer(catalog));
  const links = new LinkCounts(archive, {
    passUpTo: 10,
    catalog: { archive: archiveName, open: () => openCatalog(reads) },
  });
  assert.deepEqual(await count(links), [1, 1]);
  assert.equal(source.ranges.length, 0);
  await meet(links, 'b/x1');
  assert.deepEqual(await count(links), [3, 2]);
});

test('without a catalog, or with a broken one, a file has the links that were met', async () => {
  const bad: readonly (() => Promise<never>)[] = [
    async () => {
      throw new PbsfsError('corrupt', 'no catalog');
    },
    async () => {
      throw new PbsfsError('not-found', 'no catalog');
    },
  ];
  const opens = [undefined, ...bad, () => openCatalog(readAtBuffer(encodeCatalog([])))];
  for (const openOne of opens) {
    const { archive, meet, count } = await open(1);
    const links = new LinkCounts(archive, {
      passUpTo: 10,
      ...(openOne === undefined ? {} : { catalog: { archive: archiveName, open: openOne } }),
    });
    assert.deepEqual(await count(links), [1, 1]);
    await meet(links, 'b/x1');
    await meet(links, 'b/x1');
    assert.deepEqual(await count(links), [2, 1]);
  }
});

test('a count that failed for want of a server is tried again', async () => {
  const { metadata, places } = encodePxar(tree, { version: 1 });
  let isGone = true;
  const good = readAtBuffer(metadata);
  const gone = damagedReadAt(good, 100, metadata.length, 'unreachable');
  const archive = await openPxar({
    size: good.size,
    read: (offset, length) => (isGone && offset > 0 ? gone : good).read(offset, length),
  });
  const links = new LinkCounts(archive);
  const x = places.get('a/x')?.position ?? -1;
  await assert.rejects(links.ofFile(x), expectError('unreachable'));
  isGone = false;
  assert.equal(await links.ofFile(x), 3);
});

test('who gives up waiting for a count leaves it to the others', async () => {
  const { archive, position } = await open(2);
  const links = new LinkCounts(archive);
  const first = links.ofFile(position('a/x'), AbortSignal.abort());
  const second = links.ofFile(position('a/x'));
  await assert.rejects(first, expectError('aborted'));
  assert.equal(await second, 3);
});
