/**
 * POSIX ACLs in the form that the kernel has them in an xattr. Little-endian.
 *
 *   0  4   version, 2
 *   4  8i  entries: tag (2), permissions (2), id (4; 0xffffffff where the tag needs none)
 *
 * pxar stores access lists without what `st_mode` says already; see `encodeAccessAcl`.
 * Source: Linux `include/uapi/linux/posix_acl_xattr.h`; `pxar` crate, `format/acl.rs`.
 */

/** A named user or group. */
export interface AclEntry {
  readonly id: number;
  /** 4 read, 2 write, 1 execute. */
  readonly permissions: number;
}

/** What the ACL items of one entry say. */
export interface PxarAcl {
  readonly users: readonly AclEntry[];
  readonly groups: readonly AclEntry[];
  /** Permissions of the owning group where the mode's group bits hold the mask. */
  readonly groupObject: number | undefined;
  readonly default: DefaultAcl | undefined;
  readonly defaultUsers: readonly AclEntry[];
  readonly defaultGroups: readonly AclEntry[];
}

/** Permissions that are not set are undefined. */
export interface DefaultAcl {
  readonly user: number | undefined;
  readonly group: number | undefined;
  readonly other: number | undefined;
  readonly mask: number | undefined;
}

const version = 2;
const headerSize = 4;
const entrySize = 8;
const tags = { userObject: 1, user: 2, groupObject: 4, group: 8, mask: 0x10, other: 0x20 };
const noId = 0xffffffff;

interface TaggedEntry extends AclEntry {
  readonly tag: number;
}

function encode(entries: readonly TaggedEntry[]): Buffer {
  const bytes = Buffer.alloc(headerSize + entries.length * entrySize);
  bytes.writeUInt32LE(version, 0);
  for (const [i, { tag, permissions, id }] of entries.entries()) {
    const at = headerSize + i * entrySize;
    bytes.writeUInt16LE(tag, at);
    bytes.writeUInt16LE(permissions, at + 2);
    bytes.writeUInt32LE(id, at + 4);
  }
  return bytes;
}

/** One entry of a tag without an id; none where its permissions are not set. */
function unnamed(tag: number, permissions: number | undefined): TaggedEntry[] {
  return permissions === undefined ? [] : [{ tag, permissions, id: noId }];
}

function named(tag: number, entries: readonly AclEntry[]): TaggedEntry[] {
  return entries.map((entry) => ({ tag, ...entry })).sort((a, b) => a.id - b.id);
}

/** `system.posix_acl_access`, or undefined where the mode says everything. */
export function encodeAccessAcl(acl: PxarAcl, mode: number): Buffer | undefined {
  const { users, groups, groupObject } = acl;
  const hasNamed = users.length + groups.length > 0;
  if (!hasNamed && groupObject === undefined) return undefined;
  const groupBits = (mode >> 3) & 7;
  return encode([
    ...unnamed(tags.userObject, (mode >> 6) & 7),
    ...named(tags.user, users),
    ...unnamed(tags.groupObject, groupObject ?? groupBits),
    ...named(tags.group, groups),
    ...unnamed(tags.mask, groupBits),
    ...unnamed(tags.other, mode & 7),
  ]);
}

/** `system.posix_acl_default` of a directory, or undefined where there is none. */
export function encodeDefaultAcl(acl: PxarAcl): Buffer | undefined {
  if (acl.default === undefined) return undefined;
  const { user, group, other, mask } = acl.default;
  return encode([
    ...unnamed(tags.userObject, user),
    ...named(tags.user, acl.defaultUsers),
    ...unnamed(tags.groupObject, group),
    ...named(tags.group, acl.defaultGroups),
    ...unnamed(tags.mask, mask),
    ...unnamed(tags.other, other),
  ]);
}
