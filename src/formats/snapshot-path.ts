/**
 * Namespaces, groups and snapshots: PBS's grammar of names, and the paths they have in a datastore.
 *
 *   namespace   a/b/c       directory ns/a/ns/b/ns/c, at most 7 deep, 256 bytes
 *   group       vm/100      type (`ct`, `host`, `vm`) and backup id
 *   snapshot    vm/100/2023-11-14T22:13:20Z
 *
 * Source: PBS `pbs-api-types` (BACKUP_ID_SCHEMA, BACKUP_NAMESPACE_SCHEMA, BACKUP_TIME_SCHEMA).
 */
import { PbsfsError } from '../errors.ts';

export const backupTypes = ['ct', 'host', 'vm'] as const;
export type BackupType = (typeof backupTypes)[number];

/** Components from the root down; the root is the empty list. */
export type Namespace = readonly string[];

export interface GroupId {
  readonly namespace: Namespace;
  readonly type: BackupType;
  readonly id: string;
}

export interface SnapshotId extends GroupId {
  /** Seconds since the epoch, UTC. */
  readonly time: number;
}

const safeId = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;
const timePattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
/** Seconds of 9999-12-31T23:59:59Z, the last time with four digits of year. */
const maxTime = 253_402_300_799;
/** `MAX_NAMESPACE_DEPTH` of PBS. */
export const maxNamespaceDepth = 7;
const maxNamespaceLength = 256;

/** PBS's `PROXMOX_SAFE_ID`: letters, digits, `_`, and behind the first also `.` and `-`. */
export function isSafeId(text: string): boolean {
  return safeId.test(text);
}

export function isBackupType(text: string): text is BackupType {
  return (backupTypes as readonly string[]).includes(text);
}

/** A time that has PBS's form: whole seconds from 1 to the year 9999. */
export function isBackupTime(time: number): boolean {
  return Number.isInteger(time) && time >= 1 && time <= maxTime;
}

/** `2023-11-14T22:13:20Z`, always UTC. */
export function formatBackupTime(time: number): string {
  return `${new Date(time * 1000).toISOString().slice(0, 19)}Z`;
}

/** Seconds since the epoch, or undefined where `text` is not PBS's form of a time that exists. */
export function parseBackupTime(text: string): number | undefined {
  if (!timePattern.test(text)) return undefined;
  const time = Date.parse(text) / 1000;
  if (!isBackupTime(time)) return undefined;
  // Date.parse accepts 24:00:00 and, in some forms, days that roll over.
  return formatBackupTime(time) === text ? time : undefined;
}

/**
 * `a/b/c`, or empty for the root.
 * @throws PbsfsError `usage`
 */
export function parseNamespace(text: string): Namespace {
  if (text === '') return [];
  const components = text.split('/');
  const bad = components.find((component) => !isSafeId(component));
  if (bad !== undefined) {
    throw new PbsfsError('usage', `namespace '${text}': '${bad}' is not a valid name`);
  }
  if (components.length > maxNamespaceDepth) {
    throw new PbsfsError(
      'usage',
      `namespace '${text}' is ${components.length} deep, at most ${maxNamespaceDepth} are allowed`,
    );
  }
  if (text.length > maxNamespaceLength) {
    throw new PbsfsError('usage', `namespace has ${text.length} bytes, at most 256 are allowed`);
  }
  return components;
}

export function formatNamespace(namespace: Namespace): string {
  return namespace.join('/');
}

/** Directory of a namespace below the datastore: `ns/a/ns/b`, empty for the root. */
export function namespacePath(namespace: Namespace): string {
  return namespace.map((component) => `ns/${component}`).join('/');
}

function withNamespace(namespace: Namespace, path: string): string {
  return namespace.length === 0 ? path : `${namespacePath(namespace)}/${path}`;
}

/** `ns/a/vm/100`: the path in a datastore, in the mount and in messages. */
export function formatGroup(group: GroupId): string {
  return withNamespace(group.namespace, `${group.type}/${group.id}`);
}

/** `ns/a/vm/100/2023-11-14T22:13:20Z`: the path in a datastore, in the mount and in messages. */
export function formatSnapshot(snapshot: SnapshotId): string {
  return `${formatGroup(snapshot)}/${formatBackupTime(snapshot.time)}`;
}

/**
 * The inverse of `formatGroup`.
 * @throws PbsfsError `usage`
 */
export function parseGroup(text: string): GroupId {
  const components = text.split('/');
  const id = components.pop() ?? '';
  const type = components.pop() ?? '';
  if (!isBackupType(type) || !isSafeId(id)) {
    throw new PbsfsError('usage', `'${text}' is not a group`, {
      hint: 'write TYPE/ID, such as vm/100',
    });
  }
  return { namespace: parseNamespacePath(components, text), type, id };
}

/**
 * The inverse of `formatSnapshot`.
 * @throws PbsfsError `usage`
 */
export function parseSnapshot(text: string): SnapshotId {
  const slash = text.lastIndexOf('/');
  const time = parseBackupTime(text.slice(slash + 1));
  if (slash < 0 || time === undefined) {
    throw new PbsfsError('usage', `'${text}' is not a snapshot`, {
      hint: 'write TYPE/ID/TIME, such as vm/100/2023-11-14T22:13:20Z',
    });
  }
  return { ...parseGroup(text.slice(0, slash)), time };
}

/** `ns`, `a`, `ns`, `b` → `a`, `b`. */
function parseNamespacePath(components: readonly string[], text: string): Namespace {
  const names = components.filter((_, i) => i % 2 === 1);
  const isPath = components.every((part, i) => i % 2 === 1 || part === 'ns');
  if (!isPath || names.length * 2 !== components.length || names.includes('')) {
    throw new PbsfsError('usage', `'${text}': a namespace is written ns/NAME`);
  }
  return parseNamespace(names.join('/'));
}

const maxU64 = 2n ** 64n - 1n;

/** The value of an id that PBS parses as a u64. */
function numericValue(id: string): bigint | undefined {
  const value = /^0*\d{1,20}$/.test(id) ? BigInt(id) : undefined;
  return value === undefined || value > maxU64 ? undefined : value;
}

function compare<T extends string | bigint>(a: T, b: T): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** PBS's order of a listing: by type, numeric ids by value and first, then the others bytewise. */
export function compareGroups(a: GroupId, b: GroupId): number {
  if (a.type !== b.type) return compare(a.type, b.type);
  const [aValue, bValue] = [numericValue(a.id), numericValue(b.id)];
  if (aValue === undefined && bValue === undefined) return compare(a.id, b.id);
  if (aValue === undefined) return 1;
  if (bValue === undefined) return -1;
  return compare(aValue, bValue) || compare(a.id, b.id);
}
