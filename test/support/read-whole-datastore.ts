/** A program: lists and reads everything of the datastore given as argument. For tests that watch it. */
import { decodeIndex } from '../../src/formats/chunk-index.ts';
import type { Namespace } from '../../src/formats/snapshot-path.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import type { Repository, SnapshotReader } from '../../src/repository/repository.ts';

async function readArchive(reader: SnapshotReader, filename: string): Promise<number> {
  const raw = await reader.readFile(filename);
  if (filename.endsWith('.blob')) return 0;
  const index = decodeIndex(filename, raw);
  for (let i = 0; i < index.chunkCount; i++) await reader.readChunk(index.digest(i));
  return index.chunkCount;
}

async function readNamespace(repository: Repository, namespace: Namespace): Promise<number> {
  let chunks = 0;
  for (const { group } of await repository.listGroups(namespace)) {
    for (const { snapshot } of await repository.listSnapshots(group)) {
      const { files } = await repository.describeSnapshot(snapshot);
      await using reader = await repository.openSnapshot(snapshot);
      for (const { filename } of files) chunks += await readArchive(reader, filename);
    }
  }
  for (const child of await repository.listNamespaces(namespace)) {
    chunks += await readNamespace(repository, child);
  }
  return chunks;
}

await using repository = await openDatastore(process.argv[2] ?? '');
await repository.status();
console.log(`${await readNamespace(repository, [])} chunks`);
