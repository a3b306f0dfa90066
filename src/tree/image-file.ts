/** A disk image, or any other archive that is shown as its bytes, as one plain file of exact size. */
import { ArchiveFile, type Extent } from './archive-file.ts';
import type { OpenFile, OpenOptions } from './node.ts';

export class ImageFile extends ArchiveFile {
  async open(signal?: AbortSignal, options?: OpenOptions): Promise<OpenFile> {
    return await this.context.openChunked(this.place, signal, options);
  }

  /** What is data and what a hole is told by the index. */
  protected async measure(signal?: AbortSignal): Promise<Extent> {
    return await this.context.measure(this.place, signal);
  }
}
