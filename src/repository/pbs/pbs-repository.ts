/**
 * A datastore on a live Proxmox Backup Server. Listings and stored files come by REST, chunks through reader
 * sessions; nothing is locked until the first chunk of a snapshot is read.
 */
import { throwIfAborted } from '../../abort.ts';
import { PbsfsError } from '../../errors.ts';
import { manifestName } from '../../formats/archive-name.ts';
import {
  formatNamespace,
  formatSnapshot,
  type GroupId,
  type Namespace,
  type SnapshotId,
} from '../../formats/snapshot-path.ts';
import { silentLogger } from '../../log.ts';
import type {
  GroupInfo,
  Repository,
  RepositoryStatus,
  SnapshotInfo,
  SnapshotReader,
  SnapshotSummary,
} from '../repository.ts';
import { PbsConnection } from './connection.ts';
import { Listings } from './listings.ts';
import { openReaderSession } from './open-reader-session.ts';
import { formatRepositoryString } from './repository-string.ts';
import { SessionPool } from './session-pool.ts';
import type { PbsSettings } from './settings.ts';
import { PbsSnapshotReader } from './snapshot-reader.ts';

/** Each is a lock on a snapshot and a task on the server; a mount rarely reads more snapshots at once. */
const defaultMaxSessions = 8;

/**
 * Opens the datastore and checks that it is there and may be read, so that a wrong name, fingerprint, password
 * or right shows at once.
 * @throws PbsfsError `unreachable`, `timeout`, `access-denied`, `not-found`, `usage`
 */
export async function openPbs(settings: PbsSettings, signal?: AbortSignal): Promise<Repository> {
  const connection = await PbsConnection.create(settings);
  const repository = createPbsRepository(settings, connection);
  try {
    await repository.listNamespaces(settings.namespace ?? [], signal);
    return repository;
  } catch (error) {
    await repository[Symbol.asyncDispose]();
    throw error;
  }
}

/** The repository over a connection, which it then owns. Nothing is sent yet. */
export function createPbsRepository(settings: PbsSettings, connection: PbsConnection): Repository {
  return new PbsRepository(settings, connection);
}

class PbsRepository implements Repository {
  readonly name: string;
  readonly #connection: PbsConnection;
  readonly #listings: Listings;
  readonly #sessions: SessionPool;

  constructor(settings: PbsSettings, connection: PbsConnection) {
    this.name = settings.name ?? formatRepositoryString(settings);
    this.#connection = connection;
    this.#listings = new Listings(
      connection.api,
      settings.datastore,
      settings.logger ?? silentLogger,
    );
    this.#sessions = new SessionPool({
      open: (snapshot) =>
        openReaderSession(connection, this.#listings, settings.datastore, snapshot),
      maxSessions: settings.maxSessions ?? defaultMaxSessions,
      idleTimeout: connection.deadlines.idle,
    });
  }

  async listNamespaces(parent: Namespace, signal?: AbortSignal): Promise<readonly Namespace[]> {
    const all = await this.#listings.namespaces(signal);
    const below = all.filter((namespace) => parent.every((name, i) => namespace[i] === name));
    if (below.length === 0) {
      throw new PbsfsError('not-found', `namespace '${formatNamespace(parent)}' does not exist`);
    }
    // Of a namespace that may not be read itself, what is below can show.
    const names = below.flatMap((namespace) => namespace[parent.length] ?? []);
    return [...new Set(names)].sort().map((name) => [...parent, name]);
  }

  async listGroups(namespace: Namespace, signal?: AbortSignal): Promise<readonly GroupInfo[]> {
    return await this.#listings.groups(namespace, signal);
  }

  async listSnapshots(group: GroupId, signal?: AbortSignal): Promise<readonly SnapshotSummary[]> {
    const listed = await this.#listings.snapshots(group, 0, signal);
    return listed.map(({ info: { snapshot, finished } }) => ({ snapshot, finished }));
  }

  async describeSnapshot(snapshot: SnapshotId, signal?: AbortSignal): Promise<SnapshotInfo> {
    const { info, isBroken } = await this.#listings.snapshot(snapshot, signal);
    if (!isBroken) return info;
    throw new PbsfsError('corrupt', 'the server cannot decode the manifest', {
      context: { snapshot: formatSnapshot(snapshot), archive: manifestName },
    });
  }

  async readNotes(of: GroupId | SnapshotId, signal?: AbortSignal): Promise<string | undefined> {
    return await this.#listings.notes(of, signal);
  }

  async openSnapshot(snapshot: SnapshotId, signal?: AbortSignal): Promise<SnapshotReader> {
    await this.#listings.snapshot(snapshot, signal);
    return new PbsSnapshotReader(snapshot, this.#listings, this.#sessions);
  }

  async status(signal?: AbortSignal): Promise<RepositoryStatus> {
    throwIfAborted(signal);
    return await this.#listings.status(signal);
  }

  /** Ends everything at once, whether or not the server is still there. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#sessions[Symbol.dispose]();
    await this.#connection[Symbol.asyncDispose]();
  }
}
