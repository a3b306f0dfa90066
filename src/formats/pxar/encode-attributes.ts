/**
 * Writes the items between an ENTRY and its content. ACLs and capabilities come as the xattrs that the kernel has
 * them in, and get items of their own.
 *
 * Source: `pxar` crate, `encoder/mod.rs`; PBS `pbs-client/src/pxar/create.rs` for what is stored of an ACL.
 */
import { type AclTag, decodeAclXattr } from './acl-xattr.ts';
import type { PxarXattr } from './attributes.ts';
import { encodeItem, encodeU64 } from './encode-item.ts';
import type { ItemName } from './item.ts';

const nul = Buffer.alloc(1);
/** Stands for permissions that are not set. */
const notSet = 2n ** 64n - 1n;

/** The items in the order in which PBS writes them. @throws PbsfsError `unsupported`, `corrupt` */
export function encodeAttributes(
  xattrs: readonly PxarXattr[],
  quotaProjectId: number | undefined,
): Buffer {
  const items: Buffer[] = [];
  const special = new Map<string, Buffer>();
  for (const { name, value } of xattrs) {
    const text = name.toString('latin1');
    if (specialNames.has(text)) special.set(text, value);
    else items.push(encodeItem('XATTR', name, nul, value));
  }
  const access = special.get('system.posix_acl_access');
  if (access !== undefined) items.push(...encodeAccess(access));
  const byDefault = special.get('system.posix_acl_default');
  if (byDefault !== undefined) items.push(...encodeDefault(byDefault));
  const capability = special.get('security.capability');
  if (capability !== undefined) items.push(encodeItem('FCAPS', capability));
  if (quotaProjectId !== undefined)
    items.push(encodeItem('QUOTA_PROJID', encodeU64(quotaProjectId)));
  return Buffer.concat(items);
}

const specialNames: ReadonlySet<string> = new Set([
  'system.posix_acl_access',
  'system.posix_acl_default',
  'security.capability',
]);

class Acl {
  readonly #entries: ReturnType<typeof decodeAclXattr>;

  constructor(value: Buffer) {
    this.#entries = decodeAclXattr(value);
  }

  permissions(tag: AclTag): number | undefined {
    return this.#entries.find((entry) => entry.tag === tag)?.permissions;
  }

  /** One item for each named user or group, by id. */
  named(tag: AclTag, item: ItemName): Buffer[] {
    return this.#entries
      .filter((entry) => entry.tag === tag)
      .toSorted((a, b) => a.id - b.id)
      .map(({ id, permissions }) => encodeItem(item, encodeU64(id, permissions)));
  }
}

/** User and other are in the mode; so is the group, unless there is a mask, which takes its place there. */
function encodeAccess(value: Buffer): Buffer[] {
  const acl = new Acl(value);
  const group = acl.permissions('group-object');
  const hasMask = acl.permissions('mask') !== undefined;
  return [
    ...acl.named('user', 'ACL_USER'),
    ...acl.named('group', 'ACL_GROUP'),
    ...(hasMask && group !== undefined ? [encodeItem('ACL_GROUP_OBJ', encodeU64(group))] : []),
  ];
}

function encodeDefault(value: Buffer): Buffer[] {
  const acl = new Acl(value);
  const tags = ['user-object', 'group-object', 'other', 'mask'] as const;
  const permissions = tags.map((tag) => acl.permissions(tag) ?? notSet);
  return [
    encodeItem('ACL_DEFAULT', encodeU64(...permissions)),
    ...acl.named('user', 'ACL_DEFAULT_USER'),
    ...acl.named('group', 'ACL_DEFAULT_GROUP'),
  ];
}
