/**
 * Tells whether an index is the one that was read before, by its head: magic, UUID, time of creation and
 * checksum over all entries.
 */

/** The fields that both kinds of index share. */
export const identityLength = 64;

/** The head of an index. */
export type IndexIdentity = Buffer;

/** A copy, so that the index itself need not stay in memory. */
export function identityOf(index: Buffer): IndexIdentity {
  return Buffer.from(index.subarray(0, identityLength));
}

/** @param head at least `identityLength` bytes, or all that there are. */
export function isSameIndex(identity: IndexIdentity, head: Buffer): boolean {
  return identity.equals(head.subarray(0, identityLength));
}
