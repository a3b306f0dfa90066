/**
 * What PBS knows of a group, a snapshot or an archive beside its content, as extended attributes
 * `user.pbs.*`. Only what is set is listed.
 */
import { formatFingerprint } from '../formats/fingerprint.ts';
import type { ManifestFile } from '../formats/manifest.ts';
import type { GroupInfo, SnapshotInfo } from '../repository/repository.ts';
import type { Xattr } from './node.ts';

const prefix = Buffer.from('user.pbs.');
const commentName = Buffer.from('user.pbs.comment');

type Values = Readonly<Record<string, string | undefined>>;

function toXattrs(values: Values): readonly Xattr[] {
  return Object.entries(values).flatMap(([name, value]) =>
    value === undefined
      ? []
      : [{ name: Buffer.from(`${prefix}${name}`), value: Buffer.from(value) }],
  );
}

/** Every `ls -l` asks each name for an access list and a security label, which are never here. */
export function asksForOurs(wanted: Uint8Array | undefined): boolean {
  return wanted === undefined || prefix.equals(wanted.subarray(0, prefix.length));
}

/** Listings have only the first line of the notes: all of them can cost a request. */
export function asksForNotes(wanted: Uint8Array | undefined): boolean {
  return wanted === undefined || Buffer.from(wanted).equals(commentName);
}

export function groupXattrs(info: GroupInfo, notes: string | undefined): readonly Xattr[] {
  return toXattrs({ owner: info.owner, comment: notes });
}

export function snapshotXattrs(info: SnapshotInfo, notes: string | undefined): readonly Xattr[] {
  return toXattrs({
    owner: info.owner,
    comment: notes,
    protected: info.finished ? String(info.protected) : undefined,
    'verify-state': info.verification?.state,
    'crypt-mode': info.finished ? snapshotCryptMode(info) : undefined,
    fingerprint: info.fingerprint,
    size: info.size?.toString(),
  });
}

/** The strongest mode of its files, as PBS shows it for a snapshot. */
function snapshotCryptMode(info: SnapshotInfo): string {
  const modes = new Set(info.files.map((file) => file.cryptMode));
  if (modes.has('encrypt')) return 'encrypt';
  return modes.has('sign-only') ? 'sign-only' : 'none';
}

/** @param fingerprint of the key that encrypted or signed the snapshot, 32 bytes. */
export function archiveXattrs(
  file: ManifestFile,
  fingerprint: Uint8Array | undefined,
): readonly Xattr[] {
  return toXattrs({
    'crypt-mode': file.cryptMode,
    size: String(file.size),
    csum: file.csum.toString('hex'),
    fingerprint:
      fingerprint === undefined || file.cryptMode === 'none'
        ? undefined
        : formatFingerprint(fingerprint),
  });
}
