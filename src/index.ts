/**
 * pbsfs as a library: open a repository, walk its tree, read its archives.
 *
 *   const repository = await openDatastore('/mnt/datastore/store1');
 *   await using tree = openBackupTree(repository, { keys: new KeyRing(), … });
 *   const { node } = await resolvePath(tree, parseTreePath('vm/100/latest/drive-scsi0.img'));
 *
 * Nothing here can write to a repository. Every function throws `PbsfsError` only.
 */
export { type Image, type ImageOptions, openImage } from './archives/image.ts';
export { KeyRing, type MasterKey } from './archives/key-ring.ts';
export { type OpenedIndex, SnapshotArchives } from './archives/snapshot-archives.ts';
export type { CachedChunkReader } from './chunks/cached-chunk-reader.ts';
export { SeekableChunkReader, type Whence } from './chunks/seekable-chunk-reader.ts';
export {
  type ErrorCode,
  type ErrorContext,
  formatError,
  isPbsfsError,
  PbsfsError,
} from './errors.ts';
export type { ChunkIndex } from './formats/chunk-index.ts';
export type { CryptConfig } from './formats/crypt-config.ts';
export { type KeyFile, parseKeyFile, unlockKeyFile } from './formats/key-file.ts';
export type { Manifest, ManifestFile } from './formats/manifest.ts';
export {
  type BackupType,
  formatSnapshot,
  type GroupId,
  type Namespace,
  parseNamespace,
  type SnapshotId,
} from './formats/snapshot-path.ts';
export { type Logger, type LogLevel, silentLogger } from './log.ts';
export { type ReadAt, readBytes, readExactly, type SparseReadAt } from './read-at.ts';
export { type DatastoreOptions, openDatastore } from './repository/datastore/datastore.ts';
export { DiskCache, type DiskCacheOptions } from './repository/disk-cache/disk-cache.ts';
export { withDiskCache } from './repository/disk-cache/with-disk-cache.ts';
export { openPbs } from './repository/pbs/pbs-repository.ts';
export { parseRepositoryString } from './repository/pbs/repository-string.ts';
export type { PbsSettings } from './repository/pbs/settings.ts';
export type {
  FileInfo,
  GroupInfo,
  Repository,
  RepositoryStatus,
  SnapshotInfo,
  SnapshotReader,
  SnapshotSummary,
} from './repository/repository.ts';
export { type RetryOptions, withRetry } from './repository/with-retry.ts';
export { type BackupTree, openBackupTree } from './tree/backup-tree.ts';
export type {
  Attributes,
  Directory,
  DirectoryEntry,
  File,
  Node,
  OpenFile,
  Special,
  Symlink,
  Time,
  Xattr,
} from './tree/node.ts';
export { type Resolved, type ResolveOptions, resolvePath } from './tree/resolve.ts';
export type { TreeOptions } from './tree/tree-context.ts';
export { formatTreePath, parseTreePath } from './tree/tree-path.ts';
