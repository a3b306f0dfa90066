/** A pxar archive in the listing of its snapshot: a directory that is opened when it is looked into. */
import { isPbsfsError } from '../errors.ts';
import type { PxarPlace } from './archive-place.ts';
import { directoryAttributes, timeOfSeconds } from './attributes.ts';
import type { Attributes, Directory, DirectoryEntry, Node, OpenFile, Xattr } from './node.ts';
import type { TreeContext } from './tree-context.ts';

export class PxarRoot implements Directory {
  readonly kind = 'directory' as const;
  readonly immutable = true;
  readonly ino: number;
  readonly #context: TreeContext;
  readonly #place: PxarPlace;

  constructor(context: TreeContext, place: PxarPlace) {
    this.#context = context;
    this.#place = place;
    this.ino = place.ino;
  }

  /** Those of the directory that was backed up; of an archive that cannot be opened, the backup's. */
  async attributes(signal?: AbortSignal): Promise<Attributes> {
    try {
      return await (await this.#open(signal)).attributes(signal);
    } catch (error) {
      if (!isLasting(error)) throw error;
      return directoryAttributes(timeOfSeconds(this.#place.snapshot.time));
    }
  }

  /** Those that were backed up and no others: a copy of the directory must not differ from it. */
  async xattrs(signal?: AbortSignal): Promise<readonly Xattr[]> {
    try {
      return (await (await this.#open(signal)).xattrs?.(signal)) ?? [];
    } catch (error) {
      if (!isLasting(error)) throw error;
      return [];
    }
  }

  async lookup(name: Buffer, signal?: AbortSignal): Promise<Node | undefined> {
    return await (await this.#open(signal)).lookup(name, signal);
  }

  async list(signal?: AbortSignal): Promise<readonly DirectoryEntry[]> {
    return await (await this.#open(signal)).list(signal);
  }

  /** The archive as it is stored; undefined where that is not one stream of format v1. */
  async openStored(signal?: AbortSignal): Promise<OpenFile | undefined> {
    if (this.#place.payload !== undefined || !this.#place.filename.endsWith('.pxar.didx')) {
      return undefined;
    }
    return await this.#context.openChunked(this.#place, signal);
  }

  async #open(signal?: AbortSignal): Promise<Directory> {
    return await this.#context.pxar(this.#place, signal);
  }
}

/** What asking again would not change: the listing of the snapshot must not fail for it. */
function isLasting(error: unknown): boolean {
  return isPbsfsError(error, 'corrupt', 'chunk-missing', 'key-missing', 'key-wrong', 'not-found');
}
