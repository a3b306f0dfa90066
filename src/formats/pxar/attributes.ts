/**
 * What stands between an ENTRY and its content: extended attributes, ACLs, capabilities, quota project.
 *
 *   XATTR              name, NUL, value
 *   ACL_USER, …_GROUP  id (8), permissions (8)      also ACL_DEFAULT_USER, ACL_DEFAULT_GROUP
 *   ACL_GROUP_OBJ      permissions (8)
 *   ACL_DEFAULT        user, group, other, mask (8 each)
 *   FCAPS              value of `security.capability`
 *   QUOTA_PROJID       id (8)
 *
 * Permissions are three bits, or 2^64−1 for "not set".
 * Source: `pxar` crate, `format/mod.rs`, `format/acl.rs`.
 */
import { PbsfsError } from '../../errors.ts';
import { readU64 } from '../bytes.ts';
import { decodeItemHeader, type ItemName, itemHeaderSize } from './item.ts';
import {
  type AclEntry,
  type DefaultAcl,
  encodeAccessAcl,
  encodeDefaultAcl,
  type PxarAcl,
} from './posix-acl.ts';

export interface PxarXattr {
  /** Full name, such as `user.comment`. */
  readonly name: Buffer;
  readonly value: Buffer;
}

export interface PxarAttributes {
  /** As stored, then `security.capability`, then `system.posix_acl_access` and `…_default`. */
  readonly xattrs: readonly PxarXattr[];
  readonly quotaProjectId: number | undefined;
}

/**
 * Decodes a run of attribute items that fills `bytes`. The result holds copies.
 * @param mode of the entry: an access ACL is completed by it.
 * @throws PbsfsError `corrupt`
 */
export function decodeAttributes(bytes: Buffer, mode: number): PxarAttributes {
  const collected = new AttributeItems();
  for (let at = 0; at < bytes.length; ) {
    if (at + itemHeaderSize > bytes.length) throw truncated();
    const { name, size } = decodeItemHeader(bytes, at);
    if (at + size > bytes.length) throw truncated();
    collected.add(name, bytes.subarray(at + itemHeaderSize, at + size));
    at += size;
  }
  return collected.finish(mode);
}

function truncated(): PbsfsError {
  return new PbsfsError('corrupt', 'the attributes of the entry end in the middle of an item');
}

/** Items that an entry has at most one of. */
const singleItems: ReadonlySet<ItemName> = new Set([
  'ACL_GROUP_OBJ',
  'ACL_DEFAULT',
  'FCAPS',
  'QUOTA_PROJID',
]);

class AttributeItems {
  readonly #seen = new Set<ItemName>();
  readonly #xattrs: PxarXattr[] = [];
  readonly #users: AclEntry[] = [];
  readonly #groups: AclEntry[] = [];
  readonly #defaultUsers: AclEntry[] = [];
  readonly #defaultGroups: AclEntry[] = [];
  #groupObject: number | undefined;
  #default: DefaultAcl | undefined;
  #capability: Buffer | undefined;
  #quotaProjectId: number | undefined;

  add(name: ItemName, content: Buffer): void {
    if (singleItems.has(name) && this.#seen.has(name)) {
      throw new PbsfsError('corrupt', `the entry has more than one ${name} item`);
    }
    this.#seen.add(name);
    switch (name) {
      case 'XATTR':
        this.#xattrs.push(decodeXattr(content));
        return;
      case 'FCAPS':
        this.#capability = Buffer.from(content);
        return;
      case 'QUOTA_PROJID':
        this.#quotaProjectId = readU64(content, 0, 'quota project id');
        return;
      default:
        this.#addAcl(name, content);
    }
  }

  #addAcl(name: ItemName, content: Buffer): void {
    switch (name) {
      case 'ACL_USER':
        this.#users.push(decodeAclEntry(content));
        return;
      case 'ACL_GROUP':
        this.#groups.push(decodeAclEntry(content));
        return;
      case 'ACL_DEFAULT_USER':
        this.#defaultUsers.push(decodeAclEntry(content));
        return;
      case 'ACL_DEFAULT_GROUP':
        this.#defaultGroups.push(decodeAclEntry(content));
        return;
      case 'ACL_GROUP_OBJ':
        this.#groupObject = decodePermissions(content, 0);
        return;
      case 'ACL_DEFAULT':
        this.#default = decodeDefault(content);
        return;
      default:
        throw new PbsfsError('corrupt', `${name} item among the attributes of an entry`);
    }
  }

  finish(mode: number): PxarAttributes {
    const acl: PxarAcl = {
      users: this.#users,
      groups: this.#groups,
      groupObject: this.#groupObject,
      default: this.#default,
      defaultUsers: this.#defaultUsers,
      defaultGroups: this.#defaultGroups,
    };
    const derived: readonly (readonly [string, Buffer | undefined])[] = [
      ['security.capability', this.#capability],
      ['system.posix_acl_access', encodeAccessAcl(acl, mode)],
      ['system.posix_acl_default', encodeDefaultAcl(acl)],
    ];
    const xattrs = [...this.#xattrs];
    for (const [name, value] of derived) {
      if (value !== undefined) xattrs.push({ name: Buffer.from(name), value });
    }
    return { xattrs, quotaProjectId: this.#quotaProjectId };
  }
}

function decodeXattr(content: Buffer): PxarXattr {
  const end = content.indexOf(0);
  if (end < 1) throw new PbsfsError('corrupt', 'an extended attribute has no name with a NUL');
  return {
    name: Buffer.from(content.subarray(0, end)),
    value: Buffer.from(content.subarray(end + 1)),
  };
}

function decodeAclEntry(content: Buffer): AclEntry {
  const id = readU64(content, 0, 'id in an ACL');
  if (id > 0xffffffff) throw new PbsfsError('corrupt', `id ${id} in an ACL has more than 32 bits`);
  const permissions = decodePermissions(content, 8);
  if (permissions === undefined) {
    throw new PbsfsError('corrupt', `the permissions of id ${id} in an ACL are not set`);
  }
  return { id, permissions };
}

function decodeDefault(content: Buffer): DefaultAcl {
  return {
    user: decodePermissions(content, 0),
    group: decodePermissions(content, 8),
    other: decodePermissions(content, 16),
    mask: decodePermissions(content, 24),
  };
}

const notSet = 0xffff_ffff_ffff_ffffn;

function decodePermissions(content: Buffer, offset: number): number | undefined {
  const value = content.readBigUInt64LE(offset);
  if (value === notSet) return undefined;
  if (value > 7n) throw new PbsfsError('corrupt', `permissions ${value} in an ACL are not 0…7`);
  return Number(value);
}
