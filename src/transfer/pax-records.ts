/**
 * The records of a PAX extended header, `LENGTH KEY=VALUE\n` each: everything about an entry that its own header
 * cannot say. The length counts itself. Short paths stand in the header whatever their bytes, as programs read them.
 *
 *   path linkpath size uid gid mtime      what is too long, too large, or has nanoseconds
 *   hdrcharset=BINARY                     path and linkpath are bytes; they are not UTF-8, or bsdtar would compose them
 *   SCHILY.devmajor, SCHILY.devminor      device numbers that are too large
 *   SCHILY.xattr.NAME                     an extended attribute, its value as it is; `%` and `=` in the name escaped
 *   SCHILY.acl.access, SCHILY.acl.default ACLs as text
 *
 * Source: POSIX `pax`; libarchive's tar(5); GNU tar 1.34 `src/xheader.c` for the escapes.
 */
import { isUtf8 } from 'node:buffer';
import type { Attributes, Time, Xattr } from '../tree/node.ts';
import { formatAcl } from './acl-text.ts';

/** Room of the header: 7 and 11 octal digits, 100 bytes. */
const maxSmallNumber = 0o7777777;
const maxLargeNumber = 0o77777777777;
const maxPathBytes = 100;

export interface PaxFields {
  readonly path: Buffer;
  readonly linkPath: Buffer;
  readonly size: number;
  readonly attributes: Attributes;
  readonly xattrs: readonly Xattr[];
}

/** All records, empty where the header says everything. @throws PbsfsError `corrupt` for a broken ACL. */
export function encodePaxRecords(fields: PaxFields): Buffer {
  const { path, linkPath, size, xattrs } = fields;
  const paths = [
    ...(path.length > maxPathBytes ? [['path', path] as const] : []),
    ...(linkPath.length > maxPathBytes ? [['linkpath', linkPath] as const] : []),
  ];
  const isText = paths.every(([, value]) => isComposedText(value));
  return Buffer.concat([
    ...(isText ? [] : [record('hdrcharset', 'BINARY')]),
    ...paths.map(([key, value]) => record(key, value)),
    ...number('size', size, maxLargeNumber),
    ...attributeRecords(fields.attributes),
    ...xattrs.map(xattrRecord),
  ]);
}

function isComposedText(path: Buffer): boolean {
  const text = path.toString();
  return isUtf8(path) && text === text.normalize('NFC');
}

function attributeRecords({ uid, gid, mtime, rdev }: Attributes): Buffer[] {
  const isPlain = mtime.nanos === 0 && mtime.seconds >= 0 && mtime.seconds <= maxLargeNumber;
  return [
    ...number('uid', uid, maxSmallNumber),
    ...number('gid', gid, maxSmallNumber),
    ...(isPlain ? [] : [record('mtime', formatTime(mtime))]),
    ...number('SCHILY.devmajor', rdev?.major ?? 0, maxSmallNumber),
    ...number('SCHILY.devminor', rdev?.minor ?? 0, maxSmallNumber),
  ];
}

function number(key: string, value: number, max: number): Buffer[] {
  return value > max ? [record(key, String(value))] : [];
}

/** `-1.5` for −2 seconds and 500,000,000 nanoseconds. */
function formatTime({ seconds, nanos }: Time): string {
  const isBefore = seconds < 0 && nanos > 0;
  const whole = isBefore ? -(seconds + 1) : Math.abs(seconds);
  const fraction = isBefore ? 1_000_000_000 - nanos : nanos;
  const digits = fraction === 0 ? '' : `.${String(fraction).padStart(9, '0')}`;
  return `${seconds < 0 ? '-' : ''}${whole}${digits}`;
}

const aclKeys: Readonly<Record<string, string>> = {
  'system.posix_acl_access': 'SCHILY.acl.access',
  'system.posix_acl_default': 'SCHILY.acl.default',
};

function xattrRecord({ name, value }: Xattr): Buffer {
  const text = name.toString('latin1');
  const aclKey = Object.hasOwn(aclKeys, text) ? aclKeys[text] : undefined;
  if (aclKey !== undefined) return record(aclKey, formatAcl(value));
  const escaped = text.replaceAll('%', '%25').replaceAll('=', '%3D');
  return record(`SCHILY.xattr.${escaped}`, value);
}

/** @param key in latin1. */
function record(key: string, value: string | Buffer): Buffer {
  const rest = Buffer.concat([
    Buffer.from(` ${key}=`, 'latin1'),
    typeof value === 'string' ? Buffer.from(value) : value,
    Buffer.from('\n'),
  ]);
  let length = rest.length + String(rest.length).length;
  if (String(length).length + rest.length > length) length++;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}
