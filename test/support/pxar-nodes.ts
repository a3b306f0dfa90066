/** Short ways to write trees for `encodePxar`, and to look into what it wrote. */
import assert from 'node:assert/strict';
import {
  openPxar,
  type PxarArchive,
  type PxarOptions,
} from '../../src/archives/pxar/pxar-archive.ts';
import type { PxarEntry } from '../../src/formats/pxar/entry.ts';
import { readAtBuffer, readBytes } from '../../src/read-at.ts';
import type { EncodedPxar, PxarNode } from './encode-pxar.ts';
import { type CountingReadAt, countingReadAt } from './watched-read-at.ts';

export function file(name: string, content: string | Buffer = name): PxarNode {
  return { type: 'file', name: Buffer.from(name), content: Buffer.from(content) };
}

export function directory(name: string, ...children: readonly PxarNode[]): PxarNode {
  return { type: 'directory', name: Buffer.from(name), children };
}

/** @param target path from the root. */
export function hardLink(name: string, target: string): PxarNode {
  return { type: 'hardlink', name: Buffer.from(name), target: Buffer.from(target) };
}

/** A root with `count` files of `size` bytes, named by six digits. */
export function wide(count: number, size: number): PxarNode {
  const name = (i: number): string => String(i).padStart(6, '0');
  const files = Array.from({ length: count }, (_, i) => file(name(i), Buffer.alloc(size, i)));
  return directory('', ...files);
}

export async function openEncoded(
  { metadata, payload }: EncodedPxar,
  options?: PxarOptions,
): Promise<PxarArchive> {
  return await openPxar(readAtBuffer(metadata), payload && readAtBuffer(payload), options);
}

export interface CountedArchive {
  readonly archive: PxarArchive;
  readonly metadata: CountingReadAt;
  readonly payload: CountingReadAt;
}

/** The same, its reads counted from then on. */
export async function openCounting(encoded: EncodedPxar): Promise<CountedArchive> {
  const metadata = countingReadAt(readAtBuffer(encoded.metadata));
  const payload = countingReadAt(readAtBuffer(encoded.payload ?? Buffer.alloc(0)));
  const archive = await openPxar(metadata, encoded.payload && payload);
  metadata.reset();
  return { archive, metadata, payload };
}

/** The entry at `path`, by lookups. */
export async function find(archive: PxarArchive, path: string): Promise<PxarEntry> {
  let entry: PxarEntry | undefined = archive.root;
  for (const name of path.split('/')) {
    assert.ok(entry?.kind === 'directory', path);
    entry = await archive.lookup(entry, Buffer.from(name));
  }
  assert.ok(entry, path);
  return entry;
}

/** Names in the directory at `path`, in the order of its listing. */
export async function names(archive: PxarArchive, path = ''): Promise<string[]> {
  const entry = path === '' ? archive.root : await find(archive, path);
  assert.ok(entry.kind === 'directory');
  const { members } = await archive.readDirectory(entry);
  return members.map(({ name }) => name.toString());
}

/** Content of the file, or of the file that the hard link leads to, at `path`. */
export async function contentOf(archive: PxarArchive, path: string): Promise<string> {
  let entry = await find(archive, path);
  if (entry.kind === 'hardlink') entry = await archive.resolveHardLink(entry);
  assert.ok(entry.kind === 'file', path);
  const content = await archive.openContent(entry);
  return (await readBytes(content, 0, content.size + 1)).toString();
}
