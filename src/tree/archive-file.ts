/** What blobs and images have in common: a place in a snapshot, a size to find out, attributes of pbsfs. */
import { isPbsfsError } from '../errors.ts';
import type { ArchivePlace } from './archive-place.ts';
import { fileAttributes, timeOfSeconds } from './attributes.ts';
import { archiveXattrs } from './metadata-xattrs.ts';
import type { Attributes, File, OpenFile, OpenOptions, Xattr } from './node.ts';
import type { TreeContext } from './tree-context.ts';

/** Bytes in all, and those that are not in holes. */
export interface Extent {
  readonly size: number;
  readonly dataSize: number;
}

export abstract class ArchiveFile implements File {
  readonly kind = 'file' as const;
  readonly immutable = true;
  readonly ino: number;
  protected readonly context: TreeContext;
  protected readonly place: ArchivePlace;
  /** Size in the manifest, for an archive that cannot be opened. */
  readonly #listedSize: number | undefined;
  #attributes: Attributes | undefined;

  constructor(context: TreeContext, place: ArchivePlace, listedSize: number | undefined) {
    this.context = context;
    this.place = place;
    this.#listedSize = listedSize;
    this.ino = place.ino;
  }

  /** Of an archive that is locked or broken, the size in the manifest: it must not spoil the listing. */
  async attributes(signal?: AbortSignal): Promise<Attributes> {
    if (this.#attributes !== undefined) return this.#attributes;
    const mtime = timeOfSeconds(this.place.snapshot.time);
    try {
      const { size, dataSize } = await this.measure(signal);
      this.#attributes = fileAttributes(size, dataSize, mtime);
      return this.#attributes;
    } catch (error) {
      if (!isPbsfsError(error, 'corrupt', 'key-missing', 'key-wrong', 'not-found')) throw error;
      const size = this.#listedSize ?? 0;
      return fileAttributes(size, size, mtime);
    }
  }

  async xattrs(signal?: AbortSignal): Promise<readonly Xattr[]> {
    const archives = await this.context.archives(this.place.snapshot, signal);
    const file = archives.file(this.place.filename);
    const { keyFingerprint } = archives.manifest.unprotected;
    return file === undefined ? [] : archiveXattrs(file, keyFingerprint);
  }

  abstract open(signal?: AbortSignal, options?: OpenOptions): Promise<OpenFile>;

  protected abstract measure(signal?: AbortSignal): Promise<Extent>;
}
