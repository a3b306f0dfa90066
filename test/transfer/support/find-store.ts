/** A datastore for searches: the same tree in groups with a catalog, without one, with a broken one, and damaged. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type CatalogNode, encodeCatalog } from '../../support/encode-catalog.ts';
import { damageChunk, writeSnapshot } from '../../support/encode-datastore.ts';
import { encodePxar, type PxarNode } from '../../support/encode-pxar.ts';

export const time = 1_700_000_000;
const day = 86_400;
export const first = '2023-11-14T22:13:20Z';
export const second = '2023-11-15T22:13:20Z';

function stat(
  name: string | Buffer,
  permissions: number,
  seconds = time,
): {
  name: Buffer;
  permissions: number;
  mtime: { seconds: number; nanos: number };
} {
  return { name: Buffer.from(name as string), permissions, mtime: { seconds, nanos: 0 } };
}
function file(name: string | Buffer, content: string | Buffer, seconds = time): PxarNode {
  return { type: 'file', ...stat(name, 0o644, seconds), content: Buffer.from(content as string) };
}
function dir(name: string, ...children: readonly PxarNode[]): PxarNode {
  return { type: 'directory', ...stat(name, 0o755), children };
}
function link(name: string, target: string): PxarNode {
  return { type: 'symlink', ...stat(name, 0o777), target: Buffer.from(target) };
}

/** The same names and times twice, with contents of their own so that groups share no chunks. */
function trees(): readonly PxarNode[] {
  const key = file('id_rsa', randomBytes(3), time - day);
  return [
    dir(
      '',
      file('big', randomBytes(3_000_000)),
      dir('etc', key, file('passwd', 'old')),
      link('id_link', 'etc/id_rsa'),
    ),
    dir(
      '',
      dir(
        'etc',
        file(Buffer.from([0x69, 0x64, 0x5f, 0xff, 0x09]), 'x'),
        key,
        file('passwd', 'newer', time + 10),
      ),
    ),
  ];
}

/** The catalog that a client writes beside such a tree. */
function catalogOf(root: PxarNode): Buffer {
  const nodeOf = (node: PxarNode): CatalogNode => {
    const { name } = node;
    if (node.type === 'directory') return { type: 'd', name, children: node.children.map(nodeOf) };
    if (node.type !== 'file') return { type: 'l', name };
    return { type: 'f', name, size: node.content.length, mtime: node.mtime?.seconds ?? 0 };
  };
  const archive = nodeOf(root);
  assert.ok(archive.type === 'd');
  return encodeCatalog([{ ...archive, name: Buffer.from('root.pxar.didx') }]);
}

function writeGroup(store: string, group: string, catalog?: (root: PxarNode) => Buffer): void {
  for (const [i, root] of trees().entries()) {
    const written = writeSnapshot(store, {
      group,
      time: time + i * day,
      archives: {
        'root.pxar': { data: encodePxar(root, { version: 1 }).metadata, chunkSize: 256 * 1024 },
        ...(catalog === undefined ? {} : { 'catalog.pcat1': catalog(root) }),
      },
    });
    if (!group.endsWith('damaged')) continue;
    for (const { digest } of written.chunks('root.pxar')) damageChunk(store, digest, 'missing');
  }
}

export function writeFindStore(store: string): void {
  writeGroup(store, 'host/plain');
  writeGroup(store, 'host/listed', catalogOf);
  writeGroup(store, 'host/garbled', (root) => {
    const catalog = catalogOf(root);
    // The type of the last entry of etc: what comes before it has been given by then.
    catalog[catalog.indexOf('passwd') - 2] = 0xff;
    return catalog;
  });
  writeGroup(store, 'ns/off/host/damaged');
  writeGroup(store, 'ns/off/host/listed-damaged', catalogOf);
  const image = Buffer.alloc(5_000_000, 1);
  writeSnapshot(store, { group: 'vm/100', time, images: { 'drive-scsi0.img': image } });
}
