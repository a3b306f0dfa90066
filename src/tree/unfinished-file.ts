/**
 * A file of a snapshot without manifest: a backup that runs now or was broken off. It is listed for those who
 * ask for all, and never read, since nothing vouches for it.
 */
import { PbsfsError } from '../errors.ts';
import { type ArchivePlace, placeContext } from './archive-place.ts';
import { fileAttributes, timeOfSeconds } from './attributes.ts';
import type { Attributes, File, OpenFile } from './node.ts';

export class UnfinishedFile implements File {
  readonly kind = 'file' as const;
  readonly immutable = false;
  readonly ino: number;
  readonly #place: ArchivePlace;

  constructor(place: ArchivePlace) {
    this.#place = place;
    this.ino = place.ino;
  }

  async attributes(): Promise<Attributes> {
    return fileAttributes(0, 0, timeOfSeconds(this.#place.snapshot.time));
  }

  async open(): Promise<OpenFile> {
    throw new PbsfsError('failed', 'snapshot is not finished: it has no manifest', {
      context: placeContext(this.#place),
      hint: 'wait for the backup to end, or read an older snapshot',
    });
  }
}
