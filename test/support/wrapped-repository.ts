/** Puts one function around every call of a repository: what counting and faulty repositories are made of. */
import { formatGroup, formatNamespace, formatSnapshot } from '../../src/formats/snapshot-path.ts';
import type { Repository, SnapshotReader } from '../../src/repository/repository.ts';

export interface RepositoryCall {
  readonly method: Exclude<keyof Repository | keyof SnapshotReader, symbol | 'name' | 'snapshot'>;
  /** Namespace, group or snapshot path, file name, or digest in hex; empty for `status`. */
  readonly target: string;
}

export type Around = <T>(call: RepositoryCall, action: () => Promise<T>) => Promise<T>;

export function wrappedRepository(inner: Repository, around: Around): Repository {
  return {
    name: inner.name,
    listNamespaces: (parent, signal) =>
      around({ method: 'listNamespaces', target: formatNamespace(parent) }, () =>
        inner.listNamespaces(parent, signal),
      ),
    listGroups: (namespace, signal) =>
      around({ method: 'listGroups', target: formatNamespace(namespace) }, () =>
        inner.listGroups(namespace, signal),
      ),
    listSnapshots: (group, signal) =>
      around({ method: 'listSnapshots', target: formatGroup(group) }, () =>
        inner.listSnapshots(group, signal),
      ),
    describeSnapshot: (snapshot, signal) =>
      around({ method: 'describeSnapshot', target: formatSnapshot(snapshot) }, () =>
        inner.describeSnapshot(snapshot, signal),
      ),
    readNotes: (of, signal) =>
      around(
        { method: 'readNotes', target: 'time' in of ? formatSnapshot(of) : formatGroup(of) },
        () => inner.readNotes(of, signal),
      ),
    openSnapshot: (snapshot, signal) =>
      around({ method: 'openSnapshot', target: formatSnapshot(snapshot) }, async () =>
        wrappedReader(await inner.openSnapshot(snapshot, signal), around),
      ),
    status: (signal) => around({ method: 'status', target: '' }, () => inner.status(signal)),
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  };
}

function wrappedReader(inner: SnapshotReader, around: Around): SnapshotReader {
  return {
    snapshot: inner.snapshot,
    readFile: (filename, signal) =>
      around({ method: 'readFile', target: filename }, () => inner.readFile(filename, signal)),
    readChunk: (digest, signal) =>
      around({ method: 'readChunk', target: Buffer.from(digest).toString('hex') }, () =>
        inner.readChunk(digest, signal),
      ),
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  };
}
