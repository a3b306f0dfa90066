/**
 * What the REST calls answer, checked field by field. Unknown fields are ignored, and `null` counts as
 * absent, since some servers that speak this protocol send it for empty lists.
 *
 * Source: PBS `pbs-api-types` (BackupGroup, SnapshotListItem, NamespaceListItem, DataStoreStatus).
 */
import { PbsfsError } from '../../errors.ts';
import { manifestName } from '../../formats/archive-name.ts';
import {
  type GroupId,
  isBackupType,
  isSafeId,
  type Namespace,
  type SnapshotId,
} from '../../formats/snapshot-path.ts';
import type { FileInfo, GroupInfo, RepositoryStatus, SnapshotInfo } from '../repository.ts';

type Fields = Readonly<Record<string, unknown>>;

function mismatch(what: string): PbsfsError {
  return new PbsfsError('corrupt', `the server's answer does not have the expected form: ${what}`);
}

function fieldsOf(value: unknown, what: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw mismatch(what);
  return value as Fields;
}

function listOf(value: unknown, what: string): readonly Fields[] {
  const list = value ?? [];
  if (!Array.isArray(list)) throw mismatch(`${what} is no list`);
  return list.map((entry) => fieldsOf(entry, `an entry of ${what}`));
}

function optionalText(fields: Fields, name: string): string | undefined {
  const value = fields[name] ?? undefined;
  if (value !== undefined && typeof value !== 'string') throw mismatch(`'${name}' is no text`);
  return value;
}

function text(fields: Fields, name: string): string {
  const value = optionalText(fields, name);
  if (value === undefined) throw mismatch(`'${name}' is missing`);
  return value;
}

function optionalNumber(fields: Fields, name: string): number | undefined {
  const value = fields[name] ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw mismatch(`'${name}' is no whole number from 0 on`);
  }
  return value;
}

function number(fields: Fields, name: string): number {
  const value = optionalNumber(fields, name);
  if (value === undefined) throw mismatch(`'${name}' is missing`);
  return value;
}

/** Undefined for a type that this version does not know. */
function groupOf(fields: Fields, namespace: Namespace): GroupId | undefined {
  const type = text(fields, 'backup-type');
  const id = text(fields, 'backup-id');
  // It becomes a name in paths and queries.
  if (!isSafeId(id)) throw mismatch(`'${id}' is no backup id`);
  return isBackupType(type) ? { namespace, type, id } : undefined;
}

/** `GET …/groups`. @throws PbsfsError `corrupt` */
export function decodeGroups(data: unknown, namespace: Namespace): readonly GroupInfo[] {
  return listOf(data, 'groups').flatMap((fields) => {
    const group = groupOf(fields, namespace);
    if (group === undefined) return [];
    const lastBackup = optionalNumber(fields, 'last-backup');
    return [
      {
        group,
        owner: optionalText(fields, 'owner'),
        comment: optionalText(fields, 'comment')?.trimEnd() || undefined,
        // 0 where none is finished.
        ...(lastBackup === undefined || lastBackup === 0 ? {} : { lastBackup }),
      },
    ];
  });
}

const cryptModes = ['none', 'encrypt', 'sign-only'] as const;

function fileOf(fields: Fields): FileInfo {
  const filename = text(fields, 'filename');
  if (!isSafeId(filename)) throw mismatch(`'${filename}' is no file name`);
  const isListed = filename !== manifestName;
  const mode = optionalText(fields, 'crypt-mode');
  return {
    filename,
    size: isListed ? optionalNumber(fields, 'size') : undefined,
    cryptMode: isListed ? cryptModes.find((known) => known === mode) : undefined,
  };
}

function verificationOf(fields: Fields): SnapshotInfo['verification'] {
  const value = fields['verification'] ?? undefined;
  if (value === undefined) return undefined;
  const known = fieldsOf(value, "'verification'");
  return { state: text(known, 'state'), upid: text(known, 'upid') };
}

/**
 * What `GET …/snapshots` says of one snapshot; `isBroken` where the server could not decode its manifest.
 */
export interface ListedSnapshot {
  readonly info: SnapshotInfo;
  readonly isBroken: boolean;
}

function snapshotOf(fields: Fields, snapshot: SnapshotId): ListedSnapshot {
  const files = listOf(fields['files'], 'files').map(fileOf);
  const finished = files.some((file) => file.filename === manifestName);
  const sized = optionalNumber(fields, 'size') !== undefined;
  return {
    info: {
      snapshot,
      finished,
      owner: optionalText(fields, 'owner'),
      comment: optionalText(fields, 'comment') || undefined,
      protected: fields['protected'] === true,
      verification: verificationOf(fields),
      fingerprint: optionalText(fields, 'fingerprint'),
      // PBS's own sum counts the manifest too, whose size changes with every note.
      size: sized ? files.reduce((sum, file) => sum + (file.size ?? 0), 0) : undefined,
      files,
    },
    isBroken: finished && !sized,
  };
}

/**
 * `GET …/snapshots` of one group, oldest first. Entries of other groups are left out: not every server
 * filters.
 * @throws PbsfsError `corrupt`
 */
export function decodeSnapshots(data: unknown, group: GroupId): readonly ListedSnapshot[] {
  const listed = listOf(data, 'snapshots').flatMap((fields) => {
    const found = groupOf(fields, group.namespace);
    if (found?.type !== group.type || found.id !== group.id) return [];
    return [snapshotOf(fields, { ...group, time: number(fields, 'backup-time') })];
  });
  return listed.sort((a, b) => a.info.snapshot.time - b.info.snapshot.time);
}

/** `GET …/namespace`: every namespace that is readable, the root as the empty list. */
export function decodeNamespaces(data: unknown): readonly Namespace[] {
  return listOf(data, 'namespaces').map((fields) => {
    const ns = text(fields, 'ns');
    const namespace = ns === '' ? [] : ns.split('/');
    if (!namespace.every(isSafeId)) throw mismatch(`'${ns}' is no namespace`);
    return namespace;
  });
}

/** `GET …/status`. */
export function decodeStatus(data: unknown): RepositoryStatus {
  const fields = fieldsOf(data, 'status');
  return {
    total: optionalNumber(fields, 'total') ?? 0,
    used: optionalNumber(fields, 'used') ?? 0,
    available: optionalNumber(fields, 'avail') ?? 0,
  };
}

/** `GET /admin/datastore`: names of the datastores that are visible. */
export function decodeDatastores(data: unknown): readonly string[] {
  return listOf(data, 'datastores').map((fields) => text(fields, 'store'));
}

/** `GET /access/permissions?path=…`: the privileges on `path`. */
export function decodePrivileges(data: unknown, path: string): readonly string[] {
  const privileges = fieldsOf(data, 'permissions')[path] ?? {};
  return Object.keys(fieldsOf(privileges, `permissions on ${path}`));
}

/** `GET …/notes`, `GET …/group-notes`. */
export function decodeNotes(data: unknown): string | undefined {
  const notes = data ?? undefined;
  if (notes !== undefined && typeof notes !== 'string') throw mismatch('the notes are no text');
  return notes?.trimEnd() || undefined;
}

/** `GET /version`: the release within the version. */
export function decodeRelease(data: unknown): string | undefined {
  return optionalText(fieldsOf(data, 'version'), 'release');
}

export interface TicketAnswer {
  /** Absent where the ticket comes in a cookie only. */
  readonly ticket: string | undefined;
}

/** `POST /access/ticket`. */
export function decodeTicket(data: unknown): TicketAnswer {
  return { ticket: optionalText(fieldsOf(data, 'ticket'), 'ticket') };
}
