/** What `pbsfs doctor` looks at in a repository: that it lists, that the keys fit, that a chunk reads. */
import { formatSnapshot } from '../formats/snapshot-path.ts';
import type { BackupTree } from '../tree/backup-tree.ts';
import { GroupDirectory } from '../tree/group-directory.ts';
import type { Directory, OpenFile } from '../tree/node.ts';
import type { SnapshotDirectory } from '../tree/snapshot-directory.ts';
import { formatTreeName } from '../tree/tree-path.ts';
import { type Check, fail, ok, warn } from './doctor-check.ts';

/** Snapshots opened: enough to meet each key and some content, without reading a whole datastore. */
const maxSnapshots = 16;

/** Lists everything down to the groups, then opens the newest snapshots of some of them. */
export async function checkRepository(tree: BackupTree): Promise<readonly Check[]> {
  let groups: readonly GroupDirectory[];
  try {
    groups = await findGroups(tree.root);
  } catch (error) {
    return [fail('listing', error)];
  }
  if (groups.length === 0) {
    return [
      warn(
        'listing',
        'there are no backups, or none that may be seen',
        'another namespace (--ns), or more rights',
      ),
    ];
  }
  return [ok('listing', `${groups.length} groups`), ...(await checkSnapshots(groups))];
}

async function findGroups(directory: Directory): Promise<readonly GroupDirectory[]> {
  const groups: GroupDirectory[] = [];
  for (const { name } of await directory.list()) {
    const node = await directory.lookup(name);
    if (node instanceof GroupDirectory) groups.push(node);
    else if (node?.kind === 'directory') groups.push(...(await findGroups(node)));
  }
  return groups;
}

async function checkSnapshots(groups: readonly GroupDirectory[]): Promise<readonly Check[]> {
  const failures: Check[] = [];
  let opened = 0;
  let read: Check | undefined;
  for (const group of groups.slice(0, maxSnapshots)) {
    const snapshot = await group.newest();
    if (snapshot === undefined) continue;
    try {
      read = (await readSome(snapshot)) ?? read;
      opened += 1;
    } catch (error) {
      failures.push(fail('snapshot', error));
    }
  }
  const nothing = warn('reading', 'the newest backups hold no data');
  return [ok('snapshots', `${opened} opened`), ...failures, read ?? nothing];
}

/** Opens every file of the snapshot, which asks for its key, and reads one chunk of the first with data. */
async function readSome(snapshot: SnapshotDirectory): Promise<Check | undefined> {
  let read: Check | undefined;
  for (const { name } of await snapshot.list()) {
    const node = await snapshot.lookup(name);
    if (node?.kind !== 'file') continue;
    await using file = await node.open();
    read ??= await readFirstData(
      file,
      `${formatSnapshot(snapshot.snapshot)}/${formatTreeName(name)}`,
    );
  }
  return read;
}

async function readFirstData(file: OpenFile, path: string): Promise<Check | undefined> {
  const at = file.nextData(0);
  if (at === undefined) return undefined;
  await file.read(at, 1);
  return ok('reading', `${path}: a chunk was read and verified`);
}
