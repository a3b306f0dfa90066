/**
 * Finds the names that belong to one file. A tree may learn of a second name only when it comes to it, and have said
 * "one name" before, so the numbers of all files are kept: some 40 bytes each.
 */
import type { Attributes, File } from '../tree/node.ts';

/** What is known of a file with several names, and what the caller keeps of it. */
export interface LinkGroup<T> {
  /** A name was met that seemed to be the only one, so it is not known which. */
  readonly isLate: boolean;
  /** Undefined for the first name. */
  value: T | undefined;
}

export class HardLinks<T> {
  readonly #groups = new Map<string, LinkGroup<T>>();
  readonly #single = new Set<number>();

  /** To be asked once for each file, in order. Undefined for a file that seems to have one name. */
  meet(file: File, attributes: Attributes): LinkGroup<T> | undefined {
    if (attributes.nlink < 2) {
      this.#single.add(file.ino);
      return undefined;
    }
    const key = identityOf(file, attributes);
    const known = this.#groups.get(key);
    if (known !== undefined) return known;
    const group = { isLate: this.#single.has(file.ino), value: undefined };
    this.#groups.set(key, group);
    return group;
  }
}

/** Inode numbers are hashes: two files may share one by chance, but hardly all of this too. */
function identityOf({ ino }: File, { size, mode, uid, gid, mtime }: Attributes): string {
  return [ino, size, mode, uid, gid, mtime.seconds, mtime.nanos].join();
}
