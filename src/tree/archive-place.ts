/** Where an archive node stands: enough for its errors to name it and for its snapshot to open it. */
import type { ErrorContext } from '../errors.ts';
import { formatSnapshot, type SnapshotId } from '../formats/snapshot-path.ts';

export interface ArchivePlace {
  readonly snapshot: SnapshotId;
  /** Server name, such as `drive-scsi0.img.fidx`. */
  readonly filename: string;
  readonly ino: number;
}

/** A pxar archive: `filename` holds it all, or only the metadata of one that is stored split. */
export interface PxarPlace extends ArchivePlace {
  /** The payload of a split archive; absent too where it is missing from the snapshot. */
  readonly payload: string | undefined;
  /** The snapshot has a catalog that may list it. */
  readonly hasCatalog: boolean;
}

export function placeContext(place: ArchivePlace): ErrorContext {
  return { snapshot: formatSnapshot(place.snapshot), archive: place.filename };
}
