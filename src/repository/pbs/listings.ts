/**
 * Lists what a login may see, and explains what it may not: PBS answers most failures with 400 and a text that
 * must not be parsed, so the reason is found by asking what is there.
 */
import { throwIfAborted, unlessAborted } from '../../abort.ts';
import { isPbsfsError, PbsfsError } from '../../errors.ts';
import {
  compareGroups,
  formatGroup,
  formatNamespace,
  formatSnapshot,
  type GroupId,
  type Namespace,
  type SnapshotId,
} from '../../formats/snapshot-path.ts';
import type { Logger } from '../../log.ts';
import type { GroupInfo, RepositoryStatus } from '../repository.ts';
import { statusOf } from './answer-error.ts';
import {
  decodeDatastores,
  decodeGroups,
  decodeNamespaces,
  decodeNotes,
  decodePrivileges,
  decodeRelease,
  decodeSnapshots,
  decodeStatus,
  type ListedSnapshot,
} from './answers.ts';
import type { PbsApi, Query } from './pbs-api.ts';
import { Recent } from './recent.ts';

/** Long enough for one `ls -lR` step, short enough that new namespaces appear at once. */
const namespacesAge = 5_000;
/**
 * Describing every snapshot of a group is one request, if it does not take longer than this. The server opens
 * every manifest for it, so it is not asked often; a snapshot that is missing is always looked for anew.
 */
const snapshotsAge = 30_000;
/** Groups whose snapshots are remembered. */
const snapshotsCapacity = 16;
/** One step into a namespace asks for its groups once for each type: together that is one request. */
const groupsAge = 1_000;
/** Namespaces whose groups are remembered. */
const groupsCapacity = 64;

const listRight = 'Datastore.Audit';
const readRight = 'Datastore.Read';

/** What a 403 on a namespace is about. */
interface Denial {
  readonly right: string;
  readonly namespace: Namespace;
}

export class Listings {
  readonly #api: PbsApi;
  readonly #datastore: string;
  readonly #logger: Logger;
  readonly #namespaces = new Recent<readonly Namespace[]>(1);
  readonly #groups = new Recent<readonly GroupInfo[]>(groupsCapacity);
  readonly #snapshots = new Recent<ReadonlyMap<number, ListedSnapshot>>(snapshotsCapacity);
  readonly #explained = new Set<string>();

  constructor(api: PbsApi, datastore: string, logger: Logger) {
    this.#api = api;
    this.#datastore = datastore;
    this.#logger = logger;
  }

  /**
   * Every namespace that may be read, the root as the empty list.
   * @throws PbsfsError `not-found` for the datastore; `access-denied`
   */
  async namespaces(signal?: AbortSignal): Promise<readonly Namespace[]> {
    const load = async () => {
      try {
        const listed = decodeNamespaces(await this.#get('namespace', {}));
        return (await this.#isProxyRoot(listed)) ? [[]] : listed;
      } catch (error) {
        throw await this.#explain(error, { right: listRight, namespace: [] });
      }
    };
    throwIfAborted(signal);
    return await unlessAborted(this.#namespaces.get('', namespacesAge, load), signal);
  }

  /** @throws PbsfsError `not-found` for the namespace; `access-denied` */
  async groups(namespace: Namespace, signal?: AbortSignal): Promise<readonly GroupInfo[]> {
    throwIfAborted(signal);
    const load = () => this.#loadGroups(namespace);
    const listed = this.#groups.get(formatNamespace(namespace), groupsAge, load);
    return await unlessAborted(listed, signal);
  }

  /**
   * Snapshots of one group, oldest first.
   * @param maxAge milliseconds that the listing may be old; a load in flight is always joined.
   * @throws PbsfsError `not-found` for the group; `access-denied`
   */
  async snapshots(
    group: GroupId,
    maxAge: number,
    signal?: AbortSignal,
  ): Promise<readonly ListedSnapshot[]> {
    return [...(await this.#snapshotsByTime(group, maxAge, signal)).values()];
  }

  /** @throws PbsfsError `not-found`, `access-denied` */
  async snapshot(snapshot: SnapshotId, signal?: AbortSignal): Promise<ListedSnapshot> {
    return (
      (await this.#find(snapshot, snapshotsAge, signal)) ??
      // It may have come since the listing was made.
      (await this.#find(snapshot, 0, signal)) ??
      this.#throwMissing(formatSnapshot(snapshot), 'snapshot')
    );
  }

  /** All lines of the notes: listings have the first one. @throws PbsfsError `not-found` */
  async notes(of: GroupId | SnapshotId, signal?: AbortSignal): Promise<string | undefined> {
    try {
      const data =
        'time' in of
          ? await this.#get('notes', snapshotQuery(of), signal)
          : await this.#get('group-notes', groupQuery(of), signal);
      return decodeNotes(data);
    } catch (error) {
      if (!isPbsfsError(error, 'failed', 'access-denied')) throw error;
      // A server without that call: the first line is better than nothing.
      return await this.#comment(of, signal);
    }
  }

  /** @throws PbsfsError `access-denied` */
  async status(signal?: AbortSignal): Promise<RepositoryStatus> {
    try {
      return decodeStatus(await this.#get('status', {}, signal));
    } catch (error) {
      throw await this.#explain(error, { right: listRight, namespace: [] }, signal);
    }
  }

  /** A stored file of a snapshot, raw. @throws PbsfsError `not-found`, `stale`, `access-denied` */
  async download(
    snapshot: SnapshotId,
    filename: string,
    limit: number,
    signal?: AbortSignal,
  ): Promise<Buffer> {
    const query = { ...snapshotQuery(snapshot), 'file-name': filename };
    const path = `/admin/datastore/${this.#datastore}/download`;
    try {
      return await this.#api.download(path, query, limit, signal);
    } catch (error) {
      const { namespace } = snapshot;
      if (statusOf(error) !== 400) {
        throw await this.#explain(error, { right: readRight, namespace }, signal);
      }
      const { files } = await this.stillThere(snapshot, signal);
      if (files.some((file) => file.filename === filename)) throw error;
      throw new PbsfsError('not-found', 'is not in the snapshot', { cause: error });
    }
  }

  /** What is listed of the snapshot now. @throws PbsfsError `stale` where it is gone. */
  async stillThere(snapshot: SnapshotId, signal?: AbortSignal): Promise<ListedSnapshot['info']> {
    try {
      const found = await this.#find(snapshot, 0, signal);
      if (found !== undefined) return found.info;
    } catch (error) {
      if (!isPbsfsError(error, 'not-found')) throw error;
    }
    throw new PbsfsError('stale', 'snapshot was removed since it was opened');
  }

  /** Access was denied: who was logged in, and what right is missing where. */
  #denied({ right, namespace }: Denial, cause?: unknown): PbsfsError {
    const { authId } = this.#api.credentials;
    const path = this.#aclPath(namespace);
    return new PbsfsError('access-denied', `${authId} is logged in and lacks ${right} on ${path}`, {
      cause,
      hint: 'grant it the role DatastoreReader there; an API token needs a permission of its own, beside that of its user',
    });
  }

  /** `Datastore.Read on /datastore/…`, for hints. */
  readRightOn(namespace: Namespace): string {
    return `${readRight} on ${this.#aclPath(namespace)}`;
  }

  #get(call: string, query: Query, signal?: AbortSignal): Promise<unknown> {
    return this.#api.get(`/admin/datastore/${this.#datastore}/${call}`, query, signal);
  }

  async #find(
    snapshot: SnapshotId,
    maxAge: number,
    signal?: AbortSignal,
  ): Promise<ListedSnapshot | undefined> {
    return (await this.#snapshotsByTime(snapshot, maxAge, signal)).get(snapshot.time);
  }

  async #snapshotsByTime(
    group: GroupId,
    maxAge: number,
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<number, ListedSnapshot>> {
    throwIfAborted(signal);
    const load = () => this.#loadSnapshots(group);
    return await unlessAborted(this.#snapshots.get(formatGroup(group), maxAge, load), signal);
  }

  async #comment(of: GroupId | SnapshotId, signal?: AbortSignal): Promise<string | undefined> {
    if ('time' in of) return (await this.snapshot(of, signal)).info.comment;
    const listed = await this.groups(of.namespace, signal);
    return listed.find(({ group }) => group.type === of.type && group.id === of.id)?.comment;
  }

  async #loadGroups(namespace: Namespace): Promise<readonly GroupInfo[]> {
    let groups: readonly GroupInfo[];
    try {
      // The empty `ns` of the root is sent too: some servers only know the call with a query.
      const data = await this.#get('groups', { ns: formatNamespace(namespace) });
      groups = decodeGroups(data, namespace);
    } catch (error) {
      if (statusOf(error) === 403 && (await this.#hasReadableBelow(namespace))) return [];
      throw await this.#explain(error, { right: listRight, namespace });
    }
    if (groups.length === 0) await this.#explainEmpty(namespace);
    return [...groups].sort((a, b) => compareGroups(a.group, b.group));
  }

  async #loadSnapshots(group: GroupId): Promise<ReadonlyMap<number, ListedSnapshot>> {
    let listed: readonly ListedSnapshot[];
    try {
      listed = decodeSnapshots(await this.#get('snapshots', groupQuery(group)), group);
    } catch (error) {
      throw await this.#explain(error, { right: listRight, namespace: group.namespace });
    }
    // PBS lists no group without a snapshot.
    if (listed.length === 0) this.#throwMissing(formatGroup(group), 'group');
    return new Map(listed.map((entry) => [entry.info.snapshot.time, entry]));
  }

  #throwMissing(path: string, what: string): never {
    throw new PbsfsError(
      'not-found',
      `${what} '${path}' does not exist, or ${this.#api.credentials.authId} may not see it`,
    );
  }

  #aclPath(namespace: Namespace): string {
    return ['/datastore', this.#datastore, ...namespace].join('/');
  }

  async #hasReadableBelow(namespace: Namespace, signal?: AbortSignal): Promise<boolean> {
    try {
      return (await this.namespaces(signal)).some((known) => isBelow(known, namespace));
    } catch {
      return false;
    }
  }

  /** A refusal in terms of what is there and what is allowed. */
  async #explain(error: unknown, denial: Denial, signal?: AbortSignal): Promise<unknown> {
    const status = statusOf(error);
    if (status === 403) return this.#denied(denial, error);
    if (status !== 400) return error;
    try {
      return (await this.#findMissing(denial.namespace, signal)) ?? error;
    } catch {
      return error;
    }
  }

  /** What of the path to a namespace is not there. */
  async #findMissing(namespace: Namespace, signal?: AbortSignal): Promise<PbsfsError | undefined> {
    const { authId } = this.#api.credentials;
    const stores = decodeDatastores(await this.#api.get('/admin/datastore', {}, signal));
    if (!stores.includes(this.#datastore)) {
      const visible = stores.length === 0 ? 'none' : stores.join(', ');
      return new PbsfsError(
        'not-found',
        `datastore '${this.#datastore}' does not exist, or ${authId} may not see it; visible: ${visible}`,
        { hint: 'check its name, and the permissions of the login' },
      );
    }
    if (namespace.length === 0) return undefined;
    const known = await this.namespaces(signal);
    if (known.some((other) => isBelow(other, namespace) || isSame(other, namespace))) {
      return undefined;
    }
    const path = formatNamespace(namespace);
    return new PbsfsError(
      'not-found',
      `namespace '${path}' does not exist, or ${authId} may not see it`,
    );
  }

  /** Nothing to see can mean nothing to see for this login: said once for each namespace. */
  async #explainEmpty(namespace: Namespace, signal?: AbortSignal): Promise<void> {
    const path = this.#aclPath(namespace);
    if (this.#explained.has(path)) return;
    this.#explained.add(path);
    try {
      const data = await this.#api.get('/access/permissions', { path }, signal);
      if (decodePrivileges(data, path).includes(listRight)) return;
      const { authId } = this.#api.credentials;
      this.#logger(
        'warn',
        `${path}: no groups are listed: ${authId} lacks ${listRight} there and sees only groups that it owns (grant it the role DatastoreReader)`,
      );
    } catch {
      // Only a service: the listing itself was answered.
    }
  }

  /** A known S3 proxy has no namespaces and calls the root by this name. */
  async #isProxyRoot(listed: readonly Namespace[]): Promise<boolean> {
    if (listed.length !== 1 || listed[0]?.join('/') !== 'Root') return false;
    try {
      return decodeRelease(await this.#api.get('/version', {})) === '0';
    } catch {
      return true;
    }
  }
}

function groupQuery(group: GroupId): Query {
  return {
    ...(group.namespace.length === 0 ? {} : { ns: formatNamespace(group.namespace) }),
    'backup-type': group.type,
    'backup-id': group.id,
  };
}

function snapshotQuery(snapshot: SnapshotId): Query {
  return { ...groupQuery(snapshot), 'backup-time': snapshot.time };
}

function isSame(a: Namespace, b: Namespace): boolean {
  return a.length === b.length && isPrefix(a, b);
}

function isBelow(namespace: Namespace, parent: Namespace): boolean {
  return namespace.length > parent.length && isPrefix(parent, namespace);
}

function isPrefix(prefix: Namespace, namespace: Namespace): boolean {
  return prefix.every((component, i) => component === namespace[i]);
}
