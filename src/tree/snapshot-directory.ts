/**
 * A snapshot as a directory: its archives under the names they were backed up with, and the manifest as
 * `index.json`. The listing comes from the manifest alone; an archive is opened when it is looked at.
 */
import { isPbsfsError } from '../errors.ts';
import { archiveKind, displayName, isArchiveName } from '../formats/archive-name.ts';
import type { SnapshotId } from '../formats/snapshot-path.ts';
import type { FileInfo, SnapshotInfo } from '../repository/repository.ts';
import { directoryAttributes, timeOfSeconds } from './attributes.ts';
import { BlobFile } from './blob-file.ts';
import { ImageFile } from './image-file.ts';
import { childInode } from './inode.ts';
import { type Children, ListedDirectory } from './listed-directory.ts';
import { snapshotXattrs } from './metadata-xattrs.ts';
import type { Attributes, Node, Xattr } from './node.ts';
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
  async xattrs(signal?: AbortSignal): Promise<readonly Xattr[]> {
    return snapshotXattrs(await this.describe(signal));
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
    const children: Children = new Map();
    for (const file of info.files) {
      if (!isArchiveName(file.filename)) continue;
      const name = displayName(file.filename);
      children.set(name, this.#node(name, file));
    }
    return children;
  }

  #node(name: string, file: FileInfo): Node {
    const ino = childInode(this.ino, Buffer.from(name));
    const place = { snapshot: this.snapshot, filename: file.filename, ino };
    if (!this.finished) return new UnfinishedFile(place);
    return archiveKind(file.filename) === 'blob'
      ? new BlobFile(this.#context, place, file)
      : new ImageFile(this.#context, place, file);
  }
}
