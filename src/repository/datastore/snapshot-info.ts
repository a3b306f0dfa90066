/** What a snapshot directory tells of its snapshot: the manifest, and what merely lies beside it. */
import { dirname } from 'node:path';
import { withContext } from '../../errors.ts';
import { isArchiveName, manifestName } from '../../formats/archive-name.ts';
import { decodeBlob, maxBlobSize } from '../../formats/data-blob.ts';
import { formatFingerprint } from '../../formats/fingerprint.ts';
import { type Manifest, parseManifest } from '../../formats/manifest.ts';
import { formatSnapshot, type SnapshotId } from '../../formats/snapshot-path.ts';
import type { FileInfo, SnapshotInfo } from '../repository.ts';
import { firstLine, readOwner } from './group-files.ts';
import { ifExists, listNames, pathKind, readWholeFile } from './read-only-files.ts';
import { maxStoredBlobLength } from './snapshot-reader.ts';

/** @throws PbsfsError `corrupt` for a manifest that cannot be decoded; `access-denied`, `failed`, … */
export async function describeSnapshotDirectory(
  snapshot: SnapshotId,
  directory: string,
  signal?: AbortSignal,
): Promise<SnapshotInfo> {
  const manifest = await readManifest(snapshot, directory, signal);
  const names = await listNames(directory, 'file', signal);
  const fingerprint = manifest?.unprotected.keyFingerprint;
  return {
    snapshot,
    finished: manifest !== undefined,
    owner: await readOwner(dirname(directory)),
    comment: firstLine(manifest?.unprotected.notes),
    protected: (await pathKind(`${directory}/.protected`, signal)) !== undefined,
    verification: manifest?.unprotected.verifyState,
    fingerprint: fingerprint === undefined ? undefined : formatFingerprint(fingerprint),
    size: manifest?.files.reduce((sum, file) => sum + file.size, 0),
    files: listFiles(manifest, names),
  };
}

/** Undefined where the snapshot is not finished. @throws PbsfsError `corrupt`; `access-denied`, `failed`, … */
export async function readManifest(
  snapshot: SnapshotId,
  directory: string,
  signal?: AbortSignal,
): Promise<Manifest | undefined> {
  const context = { snapshot: formatSnapshot(snapshot), archive: manifestName };
  return withContext(context, async () => {
    const options = { maxLength: maxStoredBlobLength, signal };
    const raw = await ifExists(readWholeFile(`${directory}/${manifestName}`, options));
    if (raw === undefined) return undefined;
    return parseManifest(await decodeBlob(raw, { maxLength: maxBlobSize, crc: true }));
  });
}

function listFiles(manifest: Manifest | undefined, names: readonly string[]): readonly FileInfo[] {
  const listed: FileInfo[] = (manifest?.files ?? []).map(({ filename, size, cryptMode }) => ({
    filename,
    size,
    cryptMode,
  }));
  const known = new Set(listed.map((file) => file.filename));
  const others = names.filter((name) => isArchiveName(name) && !known.has(name)).sort();
  const unlisted = { size: undefined, cryptMode: undefined };
  return [...listed, ...others.map((filename) => ({ filename, ...unlisted }))];
}
