import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openCatalog } from '../../src/archives/catalog.ts';
import type { CatalogKind } from '../../src/formats/catalog.ts';
import { readAtBuffer } from '../../src/read-at.ts';
import {
  type CatalogNode,
  catalogBlock,
  catalogEntry,
  encodeCatalog,
  testCatalogMagic,
  varint,
} from '../support/encode-catalog.ts';
import { expectError } from '../support/expect-error.ts';
import { expectedSnapshots, readGolden } from '../support/golden.ts';
import { openGoldenArchive } from '../support/golden-archives.ts';
import { needs } from '../support/requirements.ts';
import { countingReadAt } from '../support/watched-read-at.ts';

const letters: Readonly<Record<CatalogKind, string>> = {
  directory: 'd',
  file: 'f',
  symlink: 'l',
  hardlink: 'h',
  block: 'b',
  char: 'c',
  fifo: 'p',
  socket: 's',
};

/** A whole catalog, one line an entry, paths in latin1. */
async function dump(bytes: Buffer): Promise<string[]> {
  const catalog = await openCatalog(readAtBuffer(bytes));
  const lines: string[] = [];
  for await (const { parents, entry } of catalog.walk()) {
    const path = [...parents, entry.name].map((name) => name.toString('latin1')).join('/');
    const file = entry.kind === 'file' ? ` ${entry.size} ${entry.mtime}` : '';
    lines.push(`${letters[entry.kind]} ${path}${file}`);
  }
  return lines;
}

/** The dump of the real client in the same form: it prints paths as Rust prints debug strings. */
function parseClientDump(text: string): string[] {
  const line = /^(.) "\.\/(.*?)"(?: (\d+) (\S+))?$/;
  return text
    .trim()
    .split('\n')
    .map((one) => {
      const [, type, path = '', size, time] = line.exec(one) ?? [];
      const file = size === undefined ? '' : ` ${size} ${Date.parse(time ?? '') / 1000}`;
      return `${type} ${unescapeRust(path)}${file}`;
    });
}

function unescapeRust(text: string): string {
  const simple: Record<string, string> = { n: '\n', t: '\t', r: '\r', '0': '\0' };
  const parts = text.split(/(\\u\{[0-9a-f]+\}|\\x[0-9A-F]{2}|\\.)/);
  return parts
    .map((part) => {
      if (part.startsWith('\\u')) {
        return Buffer.from(String.fromCodePoint(Number.parseInt(part.slice(3), 16))).toString(
          'latin1',
        );
      }
      if (part.startsWith('\\x')) return String.fromCharCode(Number.parseInt(part.slice(2), 16));
      if (part.startsWith('\\')) return simple[part.slice(1)] ?? part.slice(1);
      return Buffer.from(part).toString('latin1');
    })
    .join('');
}

const named = (name: string): Buffer => Buffer.from(name);
const tree: CatalogNode[] = [
  {
    type: 'd',
    name: named('root.pxar.didx'),
    children: [
      { type: 'd', name: named('empty'), children: [] },
      {
        type: 'd',
        name: named('sub'),
        children: [{ type: 'f', name: named('x'), size: 7, mtime: -5 }],
      },
      { type: 'l', name: named('z') },
    ],
  },
  { type: 'd', name: named('extra.pxar.didx'), children: [] },
];

test('a catalog is walked parents first, in the order of the archive', async () => {
  assert.deepEqual(await dump(encodeCatalog(tree)), [
    'd root.pxar.didx',
    'd root.pxar.didx/empty',
    'd root.pxar.didx/sub',
    'f root.pxar.didx/sub/x 7 -5',
    'l root.pxar.didx/z',
    'd extra.pxar.didx',
  ]);
  assert.deepEqual(await dump(encodeCatalog([])), []);
});

test('one directory is listed without reading the others', async () => {
  const children = Array.from(
    { length: 5000 },
    (_, i): CatalogNode => ({ type: 'l', name: named(`${i}`) }),
  );
  const source = countingReadAt(
    readAtBuffer(encodeCatalog([{ type: 'd', name: named('big'), children }, ...tree])),
  );
  const catalog = await openCatalog(source);
  source.reset();
  const names: string[] = [];
  for await (const { name } of catalog.entries(catalog.root)) names.push(name.toString());
  assert.deepEqual(names, ['big', 'root.pxar.didx', 'extra.pxar.didx']);
  assert.ok(source.ranges.length <= 2 && source.bytes < 1000, `${source.bytes}`);
});

test('a directory larger than one read comes whole', async () => {
  const count = 20_000;
  const children = Array.from(
    { length: count },
    (_, i): CatalogNode => ({ type: 'f', name: named(`name ${i}`), size: i, mtime: i }),
  );
  const lines = await dump(encodeCatalog([{ type: 'd', name: named('a'), children }]));
  assert.equal(lines.length, count + 1);
  for (const i of [0, 1, 4000, count - 1]) assert.equal(lines[i + 1], `f a/name ${i} ${i} ${i}`);
});

test('catalogs are those that the real client dumps', { skip: needs('golden') }, async () => {
  const dumps: readonly (readonly [string, string])[] = [
    ['pxar-raw/catalog-alpha-v1.pcat1', 'expected/catalog-alpha-v1.txt'],
    ['pxar-raw/catalog-emptyroot.pcat1', 'expected/catalog-emptyroot.txt'],
    ['pxar-raw/catalog-small.pcat1', 'expected/catalog-enc.txt'],
  ];
  for (const [raw, expected] of dumps) {
    const lines = parseClientDump(readGolden(expected).toString());
    assert.deepEqual(await dump(readGolden(raw)), lines, raw);
  }
});

test('every catalog of the golden datastore is walked', { skip: needs('golden') }, async () => {
  let walked = 0;
  for (const { ns, group, time_iso, archives } of expectedSnapshots()) {
    if (archives['catalog.pcat1.didx'] === undefined) continue;
    const path = `${ns === '' ? '' : `${ns}:`}${group}/${Date.parse(time_iso) / 1000}`;
    const catalog = await openCatalog(await openGoldenArchive(path, 'catalog.pcat1.didx'));
    const archiveNames: string[] = [];
    for await (const { parents, entry } of catalog.walk()) {
      if (parents.length === 0) archiveNames.push(entry.name.toString());
    }
    const expected = Object.keys(archives).filter((name) => name.endsWith('.pxar.didx'));
    assert.deepEqual(archiveNames.sort(), expected.sort(), path);
    walked++;
  }
  assert.equal(walked, 13);
});

function withRoot(blocks: Buffer, root: number): Buffer {
  const trailer = Buffer.alloc(8);
  trailer.writeBigUInt64LE(BigInt(root));
  return Buffer.concat([testCatalogMagic, blocks, trailer]);
}

test('what is no catalog is corrupt, so that the archive can be read instead', async () => {
  const good = encodeCatalog(tree);
  const entry = catalogEntry('l', named('x'));
  const foreign = Buffer.concat([varint(1), varint(0), varint(1), Buffer.from('al')]);
  const wrong: readonly (readonly [string, Buffer])[] = [
    ['empty', Buffer.alloc(0)],
    ['too short', good.subarray(0, 15)],
    ['another magic', Buffer.concat([Buffer.alloc(8), good.subarray(8)])],
    ['cut off', good.subarray(0, -3)],
    ['root before the first block', withRoot(catalogBlock([]), 7)],
    ['root behind the end', withRoot(catalogBlock([]), 100)],
    ['root far away', withRoot(catalogBlock([]), 2 ** 52)],
    ['table behind the end', withRoot(varint(2n ** 50n), 8)],
    [
      'table longer than its entries',
      withRoot(Buffer.concat([varint(5), varint(1), entry, varint(0)]), 8),
    ],
    ['more entries than bytes', withRoot(Buffer.concat([varint(9), varint(2n ** 50n), entry]), 8)],
    ['layout of pxar-go', withRoot(foreign, 8)],
  ];
  for (const [what, bytes] of wrong) {
    await assert.rejects(dump(bytes), expectError('corrupt'), what);
  }
});

test('directories that share a block many times over are corrupt, not endless', async () => {
  // Each of 60 blocks lists the one before twice: 2^60 paths.
  const parts: Buffer[] = [];
  let position = 8;
  let previous = 0;
  for (let i = 0; i < 60; i++) {
    const twice = ['a', 'b'].map((name) =>
      i === 0
        ? catalogEntry('l', named(name))
        : catalogEntry('d', named(name), varint(position - previous)),
    );
    const block = catalogBlock(twice);
    parts.push(block);
    previous = position;
    position += block.length;
  }
  await assert.rejects(
    dump(withRoot(Buffer.concat(parts), previous)),
    expectError('corrupt', /overlap/),
  );
});
