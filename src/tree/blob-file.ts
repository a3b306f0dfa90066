/** A blob (configuration, log, manifest, key) as a file with its decoded content. */
import { isPbsfsError } from '../errors.ts';
import type { ArchivePlace } from './archive-place.ts';
import { fileAttributes, timeOfSeconds } from './attributes.ts';
import { archiveXattrs } from './metadata-xattrs.ts';
import type { Attributes, File, OpenFile, Xattr } from './node.ts';
import type { TreeContext } from './tree-context.ts';

export class BlobFile implements File {
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

  /** The size is that of the decoded content; of a blob that cannot be decoded, the stored one. */
  async attributes(signal?: AbortSignal): Promise<Attributes> {
    this.#attributes ??= this.#attributesOf(await this.#size(signal));
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
    const content = await this.#content(signal);
    // The size may not have been told yet, or a locked blob's was a guess.
    this.#attributes = this.#attributesOf(content.length);
    return openBytes(content);
  }

  async #size(signal?: AbortSignal): Promise<number> {
    try {
      return (await this.#content(signal)).length;
    } catch (error) {
      if (isPbsfsError(error, 'corrupt', 'key-missing', 'key-wrong', 'not-found')) {
        return this.#listedSize ?? 0;
      }
      throw error;
    }
  }

  async #content(signal?: AbortSignal): Promise<Buffer> {
    const archives = await this.#context.archives(this.#place.snapshot, signal);
    return await archives.readBlob(this.#place.filename, signal);
  }

  #attributesOf(size: number): Attributes {
    return fileAttributes(size, size, timeOfSeconds(this.#place.snapshot.time));
  }
}

function openBytes(content: Buffer): OpenFile {
  return {
    size: content.length,
    dataSize: content.length,
    read: async (offset, length) => {
      const slice = content.subarray(offset, offset + length);
      return slice.length === 0 ? [] : [slice];
    },
    nextData: (offset) => (offset < content.length ? offset : undefined),
    nextHole: () => content.length,
    [Symbol.asyncDispose]: async () => {},
  };
}
