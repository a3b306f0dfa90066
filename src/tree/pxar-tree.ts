/**
 * A pxar archive as nodes of the tree: everything as it was backed up.
 *
 * Inodes come from the position in the archive, so they are the same in each mount, and all names of a file
 * share one. A member that is damaged is a file that cannot be read, so that whoever copies the directory gets
 * the others and an error; where not even its name is known it is called `damaged-entry-at-POSITION`.
 */

import type { PxarDamage } from '../archives/pxar/damage.ts';
import type { LinkCounts } from '../archives/pxar/link-counts.ts';
import type { PxarArchive } from '../archives/pxar/pxar-archive.ts';
import type { PbsfsError } from '../errors.ts';
import type {
  PxarDevice,
  PxarDirectory,
  PxarEntry,
  PxarFile,
  PxarHardLink,
  PxarIpc,
  PxarSymlink,
} from '../formats/pxar/entry.ts';
import { SparseRange } from '../read-range.ts';
import { positionInode } from './inode.ts';
import type {
  Attributes,
  Directory,
  DirectoryEntry,
  File,
  Node,
  OpenFile,
  OpenOptions,
  Special,
  Symlink,
  Xattr,
} from './node.ts';

export interface PxarTreeOptions {
  /** Inode of the root. */
  readonly ino: number;
  readonly links: LinkCounts;
  /** Opens one of the streams for a reader of its own. */
  readonly openStream: (
    stream: 'metadata' | 'payload',
    signal?: AbortSignal,
    options?: OpenOptions,
  ) => Promise<OpenFile>;
}

/** The root of an archive as a directory. */
export function pxarDirectory(archive: PxarArchive, options: PxarTreeOptions): Directory {
  return new PxarDirectoryNode({ archive, ...options }, archive.root);
}

interface PxarTree extends PxarTreeOptions {
  readonly archive: PxarArchive;
}

type StatEntry = Exclude<PxarEntry, PxarHardLink>;

/** Unit of `st_blocks` whatever the block size. */
const blockBytes = 512;

function inodeAt(tree: PxarTree, position: number): number {
  return position === 0 ? tree.ino : positionInode(tree.ino, position);
}

/**
 * A node, and its own entry in listings. A kernel remembers very many: what follows from the two references that an
 * instance holds is worked out when it is asked for.
 */
abstract class PxarNode<E extends StatEntry> {
  protected readonly tree: PxarTree;
  protected readonly entry: E;

  constructor(tree: PxarTree, entry: E) {
    this.tree = tree;
    this.entry = entry;
  }

  get immutable(): true {
    return true;
  }

  get name(): Buffer {
    return this.entry.name;
  }

  get node(): this {
    return this;
  }

  get ino(): number {
    return inodeAt(this.tree, this.entry.position);
  }

  async attributes(signal?: AbortSignal): Promise<Attributes> {
    const { entry } = this;
    const { mode, uid, gid, mtime, flags } = entry;
    const size = sizeOf(entry);
    const blocks = entry.kind === 'file' ? Math.ceil(size / blockBytes) : 0;
    const nlink = await this.nlink(signal);
    const known = { mode, uid, gid, nlink, size, blocks, mtime };
    const common = flags === 0 ? known : { ...known, flags };
    return 'rdev' in entry ? { ...common, rdev: entry.rdev } : common;
  }

  async xattrs(signal?: AbortSignal): Promise<readonly Xattr[]> {
    return (await this.tree.archive.readAttributes(this.entry, signal)).xattrs;
  }

  protected async nlink(_signal?: AbortSignal): Promise<number> {
    return 1;
  }
}

function sizeOf(entry: StatEntry): number {
  if (entry.kind === 'file') return entry.size;
  // The target has a NUL behind it.
  return entry.kind === 'symlink' ? entry.target.end - entry.target.start - 1 : 0;
}

class PxarDirectoryNode extends PxarNode<PxarDirectory> implements Directory {
  get kind(): 'directory' {
    return 'directory';
  }

  async lookup(name: Buffer, signal?: AbortSignal): Promise<Node | undefined> {
    const found = await this.tree.archive.lookup(this.entry, name, signal);
    if (found?.kind === 'hardlink') {
      this.tree.links.meet(found);
      return nodeOf(this.tree, await this.tree.archive.resolveHardLink(found, signal));
    }
    if (found !== undefined) return nodeOf(this.tree, found);
    if (!damagedName.test(name.toString('latin1'))) return undefined;
    const { damaged } = await this.tree.archive.readDirectory(this.entry, signal);
    const damage = damaged.find((one) => nameOf(one).equals(name));
    return damage && new DamagedFile(this.tree, damage);
  }

  async list(signal?: AbortSignal): Promise<readonly DirectoryEntry[]> {
    const { members, damaged } = await this.tree.archive.readDirectory(this.entry, signal);
    const entries: DirectoryEntry[] = members.map((member) => this.#listed(member));
    for (const damage of damaged) {
      // A name that no filesystem takes; the archive has given a warning.
      if (damage.error.code === 'unsupported') continue;
      const node = new DamagedFile(this.tree, damage);
      entries.push({ name: nameOf(damage), kind: node.kind, ino: node.ino, node });
    }
    return entries;
  }

  /** The attributes of a hard link are those of its file, which is elsewhere: `lookup` reads them. */
  #listed(member: PxarEntry): DirectoryEntry {
    if (member.kind !== 'hardlink') return nodeOf(this.tree, member);
    this.tree.links.meet(member);
    return { name: member.name, kind: 'file', ino: inodeAt(this.tree, member.targetPosition) };
  }

  protected override async nlink(signal?: AbortSignal): Promise<number> {
    return await this.tree.links.ofDirectory(this.entry.position, signal);
  }
}

class PxarFileNode extends PxarNode<PxarFile> implements File {
  get kind(): 'file' {
    return 'file';
  }

  async open(signal?: AbortSignal, options?: OpenOptions): Promise<OpenFile> {
    const { archive, openStream } = this.tree;
    const { stream, offset, size } = await archive.locateContent(this.entry, signal);
    if (size === 0) return emptyFile;
    const source = await openStream(stream, signal, options);
    return new OpenContent(source, offset, size);
  }

  protected override async nlink(signal?: AbortSignal): Promise<number> {
    return await this.tree.links.ofFile(this.entry.position, signal);
  }
}

class OpenContent extends SparseRange<OpenFile> implements OpenFile {
  async [Symbol.asyncDispose](): Promise<void> {
    await this.source[Symbol.asyncDispose]();
  }
}

const emptyFile: OpenFile = {
  size: 0,
  dataSize: 0,
  read: async () => [],
  nextData: () => undefined,
  nextHole: (offset) => offset,
  [Symbol.asyncDispose]: async () => {},
};

class PxarSymlinkNode extends PxarNode<PxarSymlink> implements Symlink {
  get kind(): 'symlink' {
    return 'symlink';
  }

  async target(signal?: AbortSignal): Promise<Buffer> {
    return await this.tree.archive.readSymlink(this.entry, signal);
  }
}

class PxarSpecialNode extends PxarNode<PxarDevice | PxarIpc> implements Special {
  get kind(): Special['kind'] {
    return this.entry.kind;
  }
}

/** A member that cannot be decoded: every question is answered by what is wrong with it. */
class DamagedFile implements File {
  readonly kind = 'file';
  readonly immutable = true;
  readonly ino: number;
  readonly #error: PbsfsError;

  constructor(tree: PxarTree, { position, error }: PxarDamage) {
    this.ino = inodeAt(tree, position);
    this.#error = error;
  }

  async attributes(): Promise<Attributes> {
    throw this.#error;
  }

  async open(): Promise<OpenFile> {
    throw this.#error;
  }
}

const damagedName = /^damaged-entry-at-\d+$/;

function nameOf({ name, position }: PxarDamage): Buffer {
  return name ?? Buffer.from(`damaged-entry-at-${position}`);
}

function nodeOf(tree: PxarTree, entry: StatEntry): Node & DirectoryEntry {
  switch (entry.kind) {
    case 'directory':
      return new PxarDirectoryNode(tree, entry);
    case 'file':
      return new PxarFileNode(tree, entry);
    case 'symlink':
      return new PxarSymlinkNode(tree, entry);
    default:
      return new PxarSpecialNode(tree, entry);
  }
}
