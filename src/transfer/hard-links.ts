/**
 * Hard links within one restore. The first name of a file is written, each later one becomes a link to it once
 * that is complete. Nothing but what this restore has made is ever linked to.
 */
import type { Attributes, File } from '../tree/node.ts';

/** A file that was made, and where. */
export interface LinkSource {
  /** Names below the target. */
  readonly path: readonly Buffer[];
  readonly dev: bigint;
  readonly ino: bigint;
}

export class HardLinks {
  readonly #sources = new Map<string, Promise<LinkSource | undefined>>();

  /**
   * The earlier name of `file`, once it is complete and unless it could not be made; undefined where there is
   * none. Then this is the first name, and `source` gives what is made of it.
   */
  earlierOr(
    file: File,
    attributes: Attributes,
    source: Promise<LinkSource | undefined>,
  ): Promise<LinkSource | undefined> | undefined {
    if (attributes.nlink < 2) return undefined;
    const key = identityOf(file, attributes);
    const earlier = this.#sources.get(key);
    if (earlier === undefined) this.#sources.set(key, source);
    return earlier;
  }
}

/** Inode numbers are hashes: two files may share one by chance, but hardly all of this too. */
export function identityOf({ ino }: File, { size, mode, uid, gid, mtime }: Attributes): string {
  return [ino, size, mode, uid, gid, mtime.seconds, mtime.nanos].join();
}
