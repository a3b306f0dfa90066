/** POSIX ACLs as text, as acl(5) has them and tar archives carry them, with numbers for names. */
import { type AclTag, decodeAclXattr } from '../formats/pxar/acl-xattr.ts';

const tagNames: Readonly<Record<AclTag, string>> = {
  'user-object': 'user',
  user: 'user',
  'group-object': 'group',
  group: 'group',
  mask: 'mask',
  other: 'other',
};

/**
 * `user::rw-,user:1001:rwx,group::r--,mask::rwx,other::---`
 * @param value of `system.posix_acl_access` or `system.posix_acl_default`.
 * @throws PbsfsError `corrupt`
 */
export function formatAcl(value: Buffer): string {
  return decodeAclXattr(value)
    .map(({ tag, permissions, id }) => {
      const name = tag === 'user' || tag === 'group' ? String(id) : '';
      return `${tagNames[tag]}:${name}:${formatPermissions(permissions)}`;
    })
    .join(',');
}

function formatPermissions(bits: number): string {
  return `${bits & 4 ? 'r' : '-'}${bits & 2 ? 'w' : '-'}${bits & 1 ? 'x' : '-'}`;
}
