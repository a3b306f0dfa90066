/**
 * A snapshot as a directory: its archives under the names they were backed up with, and the manifest as
 * `index.json`. The listing comes from the manifest alone; an archive is opened when it is looked at.
 */
import { isPbsfsError } from '../errors.ts';
import {
  type Archive,
  archiveKind,
  catalogName,
  isArchiveName,
  listArchives,
} from '../formats/archive-name.ts';
import type { SnapshotId } from '../formats/snapshot-path.ts';
import type { FileInfo, SnapshotInfo } from '../repository/repository.ts';
import { directoryAttributes, timeOfSeconds } from './attributes.ts';
import { BlobFile } from './blob-file.ts';
import { ImageFile } from './image-file.ts';
import { childInode } from './inode.ts';
import { type Children, ListedDirectory } from './listed-directory.ts';
import { asksForNotes, asksForOurs, snapshotXattrs } from './metadata-xattrs.ts';
import type { Attributes, Node, Xattr } from './node.ts';
import { PxarRoot } from './pxar-root.ts';
import type { TreeContext } from './tree-context.ts';
import { UnfinishedFile } from './unfinished-file.ts';

export class SnapshotDirectory extends ListedDirectory {
  readonly immutable: boolean;
  readonly snapshot: SnapshotId;
  readonly finished: boolean;
  readonly #context: TreeContext;

  constructor(context: TreeContext, snapshot: SnapshotId, finished: boolean, ino: number) {
    super(ino, finished ? Number.POSITIVE_INFINITY : context.listingSeconds);
    this.#context = context;
    this.snapshot = snapshot;
    this.finished = finished;
    this.immutable = finished;
  }

  async attributes(): Promise<Attributes> {
    return directoryAttributes(timeOfSeconds(this.snapshot.time));
  }

  /** Notes, protection and verify state change while the content does not: asked for each time. */
  async xattrs(signal?: AbortSignal, wanted?: Uint8Array): Promise<readonly Xattr[]> {
    if (!asksForOurs(wanted)) return [];
    const info = await this.describe(signal);
    const hasNotes = info.comment !== undefined && asksForNotes(wanted);
    const { repository } = this.#context;
    const notes = hasNotes ? await repository.readNotes(this.snapshot, signal) : undefined;
    return snapshotXattrs(info, notes);
  }

  async describe(signal?: AbortSignal): Promise<SnapshotInfo> {
    return await this.#context.repository.describeSnapshot(this.snapshot, signal);
  }

  protected async load(): Promise<Children> {
    let info: SnapshotInfo;
    try {
      info = await this.describe();
    } catch (error) {
      // Listed a moment ago and gone now: pruned.
      if (isPbsfsError(error, 'not-found')) throw this.#context.pruned(this.snapshot, error);
      throw error;
    }
    const files = new Map(info.files.map((file) => [file.filename, file]));
    const archives = listArchives([...files.keys()].filter(isArchiveName));
    return new Map(archives.map((archive) => [archive.name, this.#node(archive, files)]));
  }

  #node(archive: Archive, files: ReadonlyMap<string, FileInfo>): Node {
    const ino = childInode(this.ino, Buffer.from(archive.name));
    const filename = archive.split ? archive.metadata : archive.filename;
    const place = { snapshot: this.snapshot, filename, ino };
    if (!this.finished) return new UnfinishedFile(place);
    if (isPxar(archive)) {
      const payload = archive.split ? archive.payload : undefined;
      return new PxarRoot(this.#context, { ...place, payload, hasCatalog: files.has(catalogName) });
    }
    const listed = files.get(filename);
    const size = listed?.size;
    return archiveKind(filename) === 'blob'
      ? new BlobFile(this.#context, place, size)
      : new ImageFile(this.#context, place, size);
  }
}

/** A payload stream without its metadata is shown as its bytes: nothing in it has a name. */
function isPxar(archive: Archive): boolean {
  return archive.split || /\.m?pxar\.didx$/.test(archive.filename);
}
