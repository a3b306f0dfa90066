/**
 * A backup group as a directory: its snapshots by time, oldest first, and `latest`, a link to the newest
 * finished one. Unfinished snapshots are hidden unless all are asked for.
 */
import type { GroupId } from '../formats/snapshot-path.ts';
import type { GroupInfo } from '../repository/repository.ts';
import { directoryAttributes, symlinkAttributes, timeOfSeconds } from './attributes.ts';
import { childInode } from './inode.ts';
import { type Children, ListedDirectory } from './listed-directory.ts';
import { asksForNotes, groupXattrs } from './metadata-xattrs.ts';
import type { Attributes, Symlink, Xattr } from './node.ts';
import { SnapshotDirectory } from './snapshot-directory.ts';
import type { TreeContext } from './tree-context.ts';

export const latestName = 'latest';

export class GroupDirectory extends ListedDirectory {
  readonly immutable = false;
  readonly group: GroupId;
  readonly #context: TreeContext;
  #info: GroupInfo;

  constructor(context: TreeContext, info: GroupInfo, ino: number) {
    super(ino, context.listingSeconds);
    this.#context = context;
    this.#info = info;
    this.group = info.group;
  }

  get info(): GroupInfo {
    return this.#info;
  }

  /** Takes over what a newer listing says of the group. */
  update(info: GroupInfo): void {
    this.#info = info;
  }

  async attributes(signal?: AbortSignal): Promise<Attributes> {
    const { lastBackup } = this.#info;
    if (lastBackup !== undefined && lastBackup > 0) {
      return directoryAttributes(timeOfSeconds(lastBackup));
    }
    const newest = await this.newest(signal);
    return directoryAttributes(
      newest === undefined ? this.#context.openedAt : timeOfSeconds(newest.snapshot.time),
    );
  }

  async xattrs(signal?: AbortSignal, wanted?: Uint8Array): Promise<readonly Xattr[]> {
    const { repository } = this.#context;
    const hasNotes = this.#info.comment !== undefined && asksForNotes(wanted);
    const notes = hasNotes ? await repository.readNotes(this.group, signal) : undefined;
    return groupXattrs(this.#info, notes);
  }

  /** The newest finished snapshot, or undefined where there is none. */
  async newest(signal?: AbortSignal): Promise<SnapshotDirectory | undefined> {
    let newest: SnapshotDirectory | undefined;
    for (const node of (await this.children(signal)).values()) {
      if (node instanceof SnapshotDirectory && node.finished) newest = node;
    }
    return newest;
  }

  protected async load(known: Children): Promise<Children> {
    const { repository, timeFormat, all } = this.#context;
    const children: Children = new Map();
    let newest: SnapshotDirectory | undefined;
    for (const { snapshot, finished } of await repository.listSnapshots(this.group)) {
      if (!finished && !all) continue;
      const name = timeFormat.format(snapshot.time);
      const key = Buffer.from(name).toString('latin1');
      const before = known.get(key);
      const node =
        before instanceof SnapshotDirectory && before.finished === finished
          ? before
          : new SnapshotDirectory(
              this.#context,
              snapshot,
              finished,
              childInode(this.ino, Buffer.from(name)),
            );
      children.set(key, node);
      if (finished) newest = node;
    }
    if (newest !== undefined) children.set(latestName, this.#latest(newest));
    return children;
  }

  /** Another target is another link with another inode: a kernel that caches link targets stays right. */
  #latest(newest: SnapshotDirectory): Symlink {
    const target = Buffer.from(this.#context.timeFormat.format(newest.snapshot.time));
    const mtime = timeOfSeconds(newest.snapshot.time);
    return {
      kind: 'symlink',
      ino: childInode(this.ino, Buffer.from(`${latestName}\0${target}`)),
      immutable: true,
      attributes: async () => symlinkAttributes(target, mtime),
      target: async () => target,
    };
  }
}
