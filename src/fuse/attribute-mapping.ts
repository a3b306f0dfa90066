/** What `-o uid=,gid=,umask=` and `--owner-root` make of the attributes that were backed up. */
import type { Attributes } from '../tree/node.ts';

export type AttributeMapping = (attributes: Attributes) => Attributes;

export interface AttributeOverrides {
  readonly uid?: number;
  readonly gid?: number;
  /** Permission bits that nobody gets, as in umask(2). */
  readonly umask?: number;
}

/** Everything belongs to root. */
export const ownerRoot: AttributeOverrides = { uid: 0, gid: 0 };

/** A mapping that replaces owner and group and takes permission bits away. */
export function overrideAttributes(overrides: AttributeOverrides): AttributeMapping {
  const { uid, gid, umask = 0 } = overrides;
  return (attributes) => ({
    ...attributes,
    mode: attributes.mode & ~(umask & 0o777),
    uid: uid ?? attributes.uid,
    gid: gid ?? attributes.gid,
  });
}

/** The attributes as they are. */
export const keepAttributes: AttributeMapping = (attributes) => attributes;
