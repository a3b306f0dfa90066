/**
 * Reads the kernel's binary form of a POSIX ACL, the value of `system.posix_acl_access` and `…_default`.
 * Little-endian.
 *
 *   0  4   version, 2
 *   4  8i  entries: tag (2), permissions (2), id (4; of no meaning where the tag needs none)
 *
 * Source: Linux `include/uapi/linux/posix_acl_xattr.h`.
 */
import { PbsfsError } from '../../errors.ts';

export type AclTag = 'user-object' | 'user' | 'group-object' | 'group' | 'mask' | 'other';

export interface AclXattrEntry {
  readonly tag: AclTag;
  /** 4 read, 2 write, 1 execute. */
  readonly permissions: number;
  /** Of a named user or group. */
  readonly id: number;
}

const tags: ReadonlyMap<number, AclTag> = new Map([
  [0x01, 'user-object'],
  [0x02, 'user'],
  [0x04, 'group-object'],
  [0x08, 'group'],
  [0x10, 'mask'],
  [0x20, 'other'],
]);
const version = 2;
const headerSize = 4;
const entrySize = 8;

/** @throws PbsfsError `corrupt` */
export function decodeAclXattr(value: Buffer): readonly AclXattrEntry[] {
  const isWhole = value.length >= headerSize && (value.length - headerSize) % entrySize === 0;
  if (!isWhole || value.readUInt32LE(0) !== version) {
    throw new PbsfsError('corrupt', `${value.length} bytes that are no POSIX ACL of version 2`);
  }
  const entries: AclXattrEntry[] = [];
  for (let at = headerSize; at < value.length; at += entrySize) {
    const tag = tags.get(value.readUInt16LE(at));
    if (tag === undefined) {
      throw new PbsfsError('corrupt', `a POSIX ACL has tag ${value.readUInt16LE(at)}`);
    }
    const permissions = value.readUInt16LE(at + 2) & 7;
    entries.push({ tag, permissions, id: value.readUInt32LE(at + 4) });
  }
  return entries;
}
