/**
 * An entry of `ls --json`. Where PBS's API has a name for a field, it is used: a group has `backup-type`,
 * `backup-id`, `owner`, `comment`; a snapshot those of `GET …/snapshots`; an archive `crypt-mode` and `csum`.
 */
import { formatNamespace } from '../formats/snapshot-path.ts';
import { GroupDirectory } from '../tree/group-directory.ts';
import type { Node } from '../tree/node.ts';
import { SnapshotDirectory } from '../tree/snapshot-directory.ts';
import { formatTreeName, formatTreePath } from '../tree/tree-path.ts';

export type JsonEntry = Readonly<Record<string, unknown>>;

/** The letters of PBS's catalog, and of find(1). */
export const typeLetters: Readonly<Record<Node['kind'], string>> = {
  directory: 'd',
  file: 'f',
  symlink: 'l',
  block: 'b',
  char: 'c',
  fifo: 'p',
  socket: 's',
};

/** @param path names from the root. */
export async function describeEntry(path: readonly Buffer[], node: Node): Promise<JsonEntry> {
  const attributes = await node.attributes();
  const name = path.at(-1) ?? Buffer.alloc(0);
  return {
    name: formatTreeName(name),
    path: formatTreePath(path),
    path_b64: Buffer.concat(joinWithSlashes(path)).toString('base64'),
    type: typeLetters[node.kind],
    mode: attributes.mode,
    nlink: attributes.nlink,
    uid: attributes.uid,
    gid: attributes.gid,
    size: attributes.size,
    mtime: attributes.mtime.seconds,
    mtime_nanos: attributes.mtime.nanos,
    ...(attributes.rdev === undefined ? {} : { rdev: attributes.rdev }),
    ...(node.kind === 'symlink' ? { target: formatTreeName(await node.target()) } : {}),
    ...(await describeBackup(node)),
  };
}

function joinWithSlashes(path: readonly Buffer[]): Buffer[] {
  return path.flatMap((name, index) => (index === 0 ? [name] : [Buffer.from('/'), name]));
}

async function describeBackup(node: Node): Promise<JsonEntry> {
  if (node instanceof SnapshotDirectory) return await describeSnapshot(node);
  if (!(node instanceof GroupDirectory)) return await describeXattrs(node);
  const { namespace, type, id } = node.group;
  const { owner, comment } = node.info;
  return {
    ...{ ns: formatNamespace(namespace), 'backup-type': type, 'backup-id': id },
    ...{ owner, comment },
  };
}

async function describeSnapshot(node: SnapshotDirectory): Promise<JsonEntry> {
  const info = await node.describe();
  const { namespace, type, id, time } = info.snapshot;
  return {
    ns: formatNamespace(namespace),
    'backup-type': type,
    'backup-id': id,
    'backup-time': time,
    owner: info.owner,
    comment: info.comment,
    protected: info.protected,
    verification: info.verification,
    fingerprint: info.fingerprint,
    size: info.size,
    files: info.files.map((file) => ({
      filename: file.filename,
      'crypt-mode': file.cryptMode,
      size: file.size,
    })),
  };
}

const xattrPrefix = 'user.pbs.';

/** `user.pbs.crypt-mode` becomes `crypt-mode`; the tree already names them as the API does. */
async function describeXattrs(node: Node): Promise<JsonEntry> {
  const fields: Record<string, string> = {};
  for (const { name, value } of (await node.xattrs?.()) ?? []) {
    const text = name.toString();
    const field = text.slice(xattrPrefix.length);
    // The size of an encrypted blob in the manifest is not that of the file.
    if (text.startsWith(xattrPrefix) && field !== 'size') fields[field] = value.toString();
  }
  return fields;
}
