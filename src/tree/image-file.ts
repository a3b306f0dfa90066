/** A disk image, or any other archive that is shown as its bytes, as one plain file of exact size. */
import { isPbsfsError } from '../errors.ts';
import type { ArchivePlace } from './archive-place.ts';
import { fileAttributes, timeOfSeconds } from './attributes.ts';
import { archiveXattrs } from './metadata-xattrs.ts';
import type { Attributes, File, OpenFile, Xattr } from './node.ts';
import type { TreeContext } from './tree-context.ts';

export class ImageFile implements File {
  readonly kind = 'file' as const;
  readonly immutable = true;
  readonly ino: number;
  readonly #context: TreeContext;
  readonly #place: ArchivePlace;
  /** Size in the manifest, for an archive that cannot be opened. */
  readonly #listedSize: number | undefined;
  #attributes: Attributes | undefined;

  constructor(context: TreeContext, place: ArchivePlace, listedSize: number | undefined) {
    this.#context = context;
    this.#place = place;
    this.#listedSize = listedSize;
    this.ino = place.ino;
  }

  /** Blocks are those that hold data, from the index; an image whose index is broken counts as full. */
  async attributes(signal?: AbortSignal): Promise<Attributes> {
    this.#attributes ??= await this.#load(signal);
    return this.#attributes;
  }

  async xattrs(signal?: AbortSignal): Promise<readonly Xattr[]> {
    const archives = await this.#context.archives(this.#place.snapshot, signal);
    const file = archives.file(this.#place.filename);
    return file === undefined
      ? []
      : archiveXattrs(file, archives.manifest.unprotected.keyFingerprint);
  }

  async open(signal?: AbortSignal): Promise<OpenFile> {
    return await this.#context.openChunked(this.#place, signal);
  }

  async #load(signal?: AbortSignal): Promise<Attributes> {
    const mtime = timeOfSeconds(this.#place.snapshot.time);
    try {
      const { size, dataSize } = await this.#context.measure(this.#place, signal);
      return fileAttributes(size, dataSize, mtime);
    } catch (error) {
      if (!isPbsfsError(error, 'corrupt', 'not-found')) throw error;
      const size = this.#listedSize ?? 0;
      return fileAttributes(size, size, mtime);
    }
  }
}
