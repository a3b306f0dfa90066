/** A blob (configuration, log, manifest, key) as a file with its decoded content. */
import { ArchiveFile, type Extent } from './archive-file.ts';
import type { OpenFile } from './node.ts';

export class BlobFile extends ArchiveFile {
  async open(signal?: AbortSignal): Promise<OpenFile> {
    return openBytes(await this.#content(signal));
  }

  /** The size of the decoded content is only known when it is decoded. */
  protected async measure(signal?: AbortSignal): Promise<Extent> {
    const { length } = await this.#content(signal);
    return { size: length, dataSize: length };
  }

  async #content(signal?: AbortSignal): Promise<Buffer> {
    const archives = await this.context.archives(this.place.snapshot, signal);
    return await archives.readBlob(this.place.filename, signal);
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
