/**
 * A datastore as a directory, with no server: a disk on a desk, a copy on a NAS, a server's own disk.
 *
 *   .chunks/                              chunks, shared by all snapshots
 *   vm|ct|host/ID/                        group: owner, notes
 *   vm|ct|host/ID/TIME/                   snapshot: index.json.blob once finished, archives, .protected
 *   ns/NAME/                              namespace: groups, and again ns/
 *
 * Nothing is ever written, locked or touched. No lock is needed: every file comes into being whole, by rename,
 * and garbage collection spares chunks for a day after the last index that names them is gone.
 *
 * Source: PBS `pbs-datastore/src/{datastore,backup_info,hierarchy}.rs`.
 */
import { statfs } from 'node:fs/promises';
import { throwIfAborted } from '../../abort.ts';
import { PbsfsError } from '../../errors.ts';
import { manifestName } from '../../formats/archive-name.ts';
import {
  backupTypes,
  compareGroups,
  formatGroup,
  formatNamespace,
  formatSnapshot,
  type GroupId,
  isBackupType,
  isSafeId,
  maxNamespaceDepth,
  type Namespace,
  namespacePath,
  parseBackupTime,
  type SnapshotId,
} from '../../formats/snapshot-path.ts';
import { Semaphore } from '../../semaphore.ts';
import type {
  GroupInfo,
  Repository,
  RepositoryStatus,
  SnapshotInfo,
  SnapshotReader,
  SnapshotSummary,
} from '../repository.ts';
import type { ChunkDirectories } from './chunk-directories.ts';
import { translateErrno } from './errno.ts';
import { firstLine, readNotes, readOwner } from './group-files.ts';
import { listNames, pathKind } from './read-only-files.ts';
import { describeSnapshotDirectory, readManifest } from './snapshot-info.ts';
import { DatastoreSnapshotReader } from './snapshot-reader.ts';

/** Files looked at together: enough to keep a disk busy, far below any limit of open files. */
const filesAtOnce = 32;

export class DatastoreRepository implements Repository {
  readonly name: string;
  readonly #root: string;
  readonly #chunks: ChunkDirectories;
  readonly #files = new Semaphore(filesAtOnce);

  constructor(name: string, root: string, chunks: ChunkDirectories) {
    this.name = name;
    this.#root = root;
    this.#chunks = chunks;
  }

  async listNamespaces(parent: Namespace, signal?: AbortSignal): Promise<readonly Namespace[]> {
    const directory = await this.#namespaceDirectory(parent, signal);
    if (parent.length >= maxNamespaceDepth) return [];
    const names = await listDirectories(`${directory}/ns`, signal);
    return names
      .filter(isSafeId)
      .sort()
      .map((name) => [...parent, name]);
  }

  async listGroups(namespace: Namespace, signal?: AbortSignal): Promise<readonly GroupInfo[]> {
    const directory = await this.#namespaceDirectory(namespace, signal);
    const groups: GroupId[] = [];
    for (const type of backupTypes) {
      const ids = await listDirectories(`${directory}/${type}`, signal);
      groups.push(...ids.filter(isSafeId).map((id) => ({ namespace, type, id })));
    }
    groups.sort(compareGroups);
    return this.#forEach(groups, signal, async (group) => {
      const path = `${this.#root}/${formatGroup(group)}`;
      return { group, owner: await readOwner(path), comment: firstLine(await readNotes(path)) };
    });
  }

  async listSnapshots(group: GroupId, signal?: AbortSignal): Promise<readonly SnapshotSummary[]> {
    const directory = await this.#groupDirectory(group, signal);
    const names = await listNames(directory, 'directory', signal);
    const times = names.map(parseBackupTime).filter((time) => time !== undefined);
    times.sort((a, b) => a - b);
    return this.#forEach(times, signal, async (time) => {
      const snapshot = { ...group, time };
      const manifest = `${this.#root}/${formatSnapshot(snapshot)}/${manifestName}`;
      return { snapshot, finished: (await pathKind(manifest)) === 'file' };
    });
  }

  async describeSnapshot(snapshot: SnapshotId, signal?: AbortSignal): Promise<SnapshotInfo> {
    const directory = await this.#snapshotDirectory(snapshot, signal);
    return describeSnapshotDirectory(snapshot, directory, signal);
  }

  async readNotes(of: GroupId | SnapshotId, signal?: AbortSignal): Promise<string | undefined> {
    if (!('time' in of)) return await readNotes(await this.#groupDirectory(of, signal));
    const directory = await this.#snapshotDirectory(of, signal);
    return (await readManifest(of, directory, signal))?.unprotected.notes?.trimEnd() || undefined;
  }

  async openSnapshot(snapshot: SnapshotId, signal?: AbortSignal): Promise<SnapshotReader> {
    const directory = await this.#snapshotDirectory(snapshot, signal);
    return new DatastoreSnapshotReader(snapshot, directory, this.#chunks);
  }

  async status(signal?: AbortSignal): Promise<RepositoryStatus> {
    throwIfAborted(signal);
    try {
      const { bsize, blocks, bfree, bavail } = await statfs(this.#root);
      return {
        total: blocks * bsize,
        used: (blocks - bfree) * bsize,
        available: bavail * bsize,
      };
    } catch (error) {
      throw translateErrno(error, this.#root);
    }
  }

  /** Nothing is held open. */
  async [Symbol.asyncDispose](): Promise<void> {}

  #forEach<T, R>(
    items: readonly T[],
    signal: AbortSignal | undefined,
    action: (item: T) => Promise<R>,
  ): Promise<R[]> {
    return Promise.all(items.map((item) => this.#files.run(() => action(item), signal)));
  }

  async #namespaceDirectory(namespace: Namespace, signal?: AbortSignal): Promise<string> {
    const path = namespacePath(namespace);
    const directory = path === '' ? this.#root : `${this.#root}/${path}`;
    if (namespace.every(isSafeId) && (await isDirectory(directory, signal))) return directory;
    throw this.#notFound(`namespace '${formatNamespace(namespace)}' does not exist`);
  }

  async #groupDirectory(group: GroupId, signal?: AbortSignal): Promise<string> {
    const path = formatGroup(group);
    const directory = `${this.#root}/${path}`;
    if (isValidGroup(group) && (await isDirectory(directory, signal))) return directory;
    throw this.#notFound(`group '${path}' does not exist`);
  }

  async #snapshotDirectory(snapshot: SnapshotId, signal?: AbortSignal): Promise<string> {
    const path = formatSnapshot(snapshot);
    const directory = `${this.#root}/${path}`;
    if (isValidGroup(snapshot) && (await isDirectory(directory, signal))) return directory;
    throw this.#notFound(`snapshot '${path}' does not exist`);
  }

  #notFound(message: string): PbsfsError {
    return new PbsfsError('not-found', message, { context: { repository: this.name } });
  }
}

/** Names become paths, so they are checked even where a caller should have parsed them. */
function isValidGroup(group: GroupId): boolean {
  return group.namespace.every(isSafeId) && isBackupType(group.type) && isSafeId(group.id);
}

async function isDirectory(path: string, signal?: AbortSignal): Promise<boolean> {
  return (await pathKind(path, signal)) === 'directory';
}

/** Real directories in a real directory: none of the two may be a symbolic link. */
async function listDirectories(path: string, signal?: AbortSignal): Promise<readonly string[]> {
  return (await isDirectory(path, signal)) ? listNames(path, 'directory', signal) : [];
}
