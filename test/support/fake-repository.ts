/** A repository that holds nothing but what a test gives it. */
import assert from 'node:assert/strict';
import type { Repository, SnapshotReader } from '../../src/repository/repository.ts';

/** Lists nothing, and opens any snapshot with these methods of its reader. */
export function fakeRepository(
  reader: Partial<Pick<SnapshotReader, 'readFile' | 'readChunk'>> = {},
): Repository {
  return {
    name: 'fake',
    listNamespaces: async () => [],
    listGroups: async () => [],
    listSnapshots: async () => [],
    describeSnapshot: async () => assert.fail('has no snapshot'),
    readNotes: async () => undefined,
    openSnapshot: async (snapshot) => ({
      snapshot,
      readFile: async () => assert.fail('has no file'),
      readChunk: async () => assert.fail('has no chunk'),
      ...reader,
      [Symbol.asyncDispose]: async () => {},
    }),
    status: async () => ({ total: 0, used: 0, available: 0 }),
    [Symbol.asyncDispose]: async () => {},
  };
}
