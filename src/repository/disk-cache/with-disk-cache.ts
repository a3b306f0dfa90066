/**
 * Looks for chunks on a local disk before it asks the repository, and keeps there what it brought. Listings,
 * manifests, blobs and indexes are not kept: they change, or are small and read once.
 */
import type { Repository, SnapshotReader } from '../repository.ts';
import type { DiskCache } from './disk-cache.ts';

/** The same repository; closing it closes the cache too. */
export function withDiskCache(repository: Repository, cache: DiskCache): Repository {
  return {
    name: repository.name,
    listNamespaces: (parent, signal) => repository.listNamespaces(parent, signal),
    listGroups: (namespace, signal) => repository.listGroups(namespace, signal),
    listSnapshots: (group, signal) => repository.listSnapshots(group, signal),
    describeSnapshot: (snapshot, signal) => repository.describeSnapshot(snapshot, signal),
    readNotes: (place, signal) => repository.readNotes(place, signal),
    openSnapshot: async (snapshot, signal) =>
      cachedReader(await repository.openSnapshot(snapshot, signal), cache),
    status: (signal) => repository.status(signal),
    async [Symbol.asyncDispose]() {
      cache[Symbol.dispose]();
      await repository[Symbol.asyncDispose]();
    },
  };
}

function cachedReader(reader: SnapshotReader, cache: DiskCache): SnapshotReader {
  return {
    snapshot: reader.snapshot,
    readFile: (filename, signal) => reader.readFile(filename, signal),
    async readChunk(digest, signal) {
      const kept = await cache.read(digest, signal);
      if (kept !== undefined) return kept;
      const raw = await reader.readChunk(digest, signal);
      // Awaited: the chunk is its reader's from then on, who may give its memory away.
      await cache.write(digest, raw);
      return raw;
    },
    dropChunk: (digest, raw) => cache.drop(digest, raw),
    [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
  };
}
