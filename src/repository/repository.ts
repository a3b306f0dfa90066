/**
 * The port of a place that holds backups: a live server, a datastore directory, an object store. It lists,
 * and it hands out stored bytes as they are; it neither decodes nor verifies. It has no method that writes:
 * what serves a mount cannot change a backup.
 *
 * Every method may be called any number of times at once. Errors are `PbsfsError` only.
 */
import type { GroupId, Namespace, SnapshotId } from '../formats/snapshot-path.ts';

/** What a listing says of a group. */
export interface GroupInfo {
  readonly group: GroupId;
  /** Auth id of the owner; undefined where it is missing or unreadable. */
  readonly owner: string | undefined;
  /** First line of the notes: `readNotes` gives all. */
  readonly comment: string | undefined;
  /** Time of the newest finished snapshot, where the listing brings it at no further cost. */
  readonly lastBackup?: number;
}

/** What is known of a snapshot without opening it. */
export interface SnapshotSummary {
  readonly snapshot: SnapshotId;
  /** A manifest exists. Unfinished snapshots are listed too, for those who ask. */
  readonly finished: boolean;
}

/** One file of a snapshot as the manifest has it. */
export interface FileInfo {
  /** Server name, such as `drive-scsi0.img.fidx`. */
  readonly filename: string;
  /** Content size of an index, raw size of a blob; undefined where the manifest does not list the file. */
  readonly size: number | undefined;
  readonly cryptMode: 'none' | 'encrypt' | 'sign-only' | undefined;
}

export interface SnapshotInfo extends SnapshotSummary {
  readonly owner: string | undefined;
  /** First line of the notes: `readNotes` gives all. */
  readonly comment: string | undefined;
  readonly protected: boolean;
  readonly verification: { readonly state: string; readonly upid: string } | undefined;
  /** Key fingerprint in the long colon form; undefined where nothing is encrypted or signed. */
  readonly fingerprint: string | undefined;
  /** Sum of the sizes of the files in the manifest. */
  readonly size: number | undefined;
  /** Files of the manifest, then files that are merely there (`index.json.blob`, `client.log.blob`, …). */
  readonly files: readonly FileInfo[];
}

/** Space of the datastore in bytes. Zeros mean that it is not known. */
export interface RepositoryStatus {
  readonly total: number;
  readonly used: number;
  readonly available: number;
}

export interface Repository extends AsyncDisposable {
  /** As the user wrote it, for messages and `mounted NAME at DIR`. Holds no secret. */
  readonly name: string;
  /** Direct children of `parent`, sorted. @throws `not-found` where `parent` itself does not exist. */
  listNamespaces(parent: Namespace, signal?: AbortSignal): Promise<readonly Namespace[]>;
  /** Groups directly in `namespace`, in PBS's order. @throws `not-found` for an unknown namespace. */
  listGroups(namespace: Namespace, signal?: AbortSignal): Promise<readonly GroupInfo[]>;
  /** Snapshots of one group, oldest first. @throws `not-found` for an unknown group. */
  listSnapshots(group: GroupId, signal?: AbortSignal): Promise<readonly SnapshotSummary[]>;
  /**
   * Details of one snapshot, without a lock and without a session.
   * @throws `not-found`; `corrupt` where its manifest cannot be decoded.
   */
  describeSnapshot(snapshot: SnapshotId, signal?: AbortSignal): Promise<SnapshotInfo>;
  /**
   * The notes of a group or snapshot, undefined where it has none.
   * @throws `not-found` where a snapshot does not exist.
   */
  readNotes(of: GroupId | SnapshotId, signal?: AbortSignal): Promise<string | undefined>;
  /** @throws `not-found` where the snapshot does not exist. */
  openSnapshot(snapshot: SnapshotId, signal?: AbortSignal): Promise<SnapshotReader>;
  status(signal?: AbortSignal): Promise<RepositoryStatus>;
}

/** Stored bytes of one snapshot. */
export interface SnapshotReader extends AsyncDisposable {
  readonly snapshot: SnapshotId;
  /**
   * A stored file, raw: a blob with its header, an index. Reading an index also makes its chunks readable.
   * At most 128 MiB for a blob.
   * @throws `not-found`; `stale` where the snapshot is gone.
   */
  readFile(filename: string, signal?: AbortSignal): Promise<Buffer>;
  /**
   * A stored chunk, raw: a data blob with its header. Only chunks of an index that `readFile` gave before. The
   * buffer is the caller's own, to change or to give away.
   * @param digest 32 bytes.
   * @throws `chunk-missing`; `stale` where the snapshot is gone.
   */
  readChunk(digest: Uint8Array, signal?: AbortSignal): Promise<Buffer>;
  /**
   * Says that `raw`, which `readChunk` gave, does not fit its digest. Where chunks are kept nearby, this one is
   * forgotten.
   * @param raw told by its identity: its memory may be given away already.
   * @returns whether it was one that was kept, so that reading once more asks where it is stored.
   */
  dropChunk?(digest: Uint8Array, raw: Buffer): Promise<boolean>;
}
