/**
 * Inode numbers: a 53-bit hash of the parent's number and the name (or the position in an archive), so that
 * they are the same in every mount, need no table, and are exact as a JavaScript number. Two of a million
 * nodes meet with a chance of 1 in 18,000, and then only look like hard links to tools that compare numbers.
 */

/** Number of the root, as on every Unix filesystem of this kind. */
export const rootInode = 1;

/** Multipliers and final mix of MurmurHash3 (public domain): odd constants that spread the bits. */
const multiplierA = 0x85ebca6b;
const multiplierB = 0xc2b2ae35;

function mix(h: number): number {
  let x = h;
  x = Math.imul(x ^ (x >>> 16), multiplierA);
  x = Math.imul(x ^ (x >>> 13), multiplierB);
  return (x ^ (x >>> 16)) >>> 0;
}

function combine(high: number, low: number): number {
  const inode = (mix(high) & 0x1fffff) * 0x1_0000_0000 + mix(low ^ high);
  // 0 means "no inode" to the kernel, 1 is the root.
  return inode <= rootInode ? inode + 2 : inode;
}

/** Inode of the child `name` of the directory `parent`. */
export function childInode(parent: number, name: Uint8Array): number {
  let high = Math.floor(parent / 0x1_0000_0000) ^ name.length;
  let low = parent | 0;
  for (const byte of name) {
    high = Math.imul(high ^ byte, 0x9e3779b1) ^ (low >>> 15);
    low = Math.imul(low ^ byte, 0x01000193) ^ (high >>> 13);
  }
  return combine(high, low);
}

/** Inode of what lies at byte `position` of the archive whose directory has the inode `archive`. */
export function positionInode(archive: number, position: number): number {
  const high = Math.floor(archive / 0x1_0000_0000) ^ Math.floor(position / 0x1_0000_0000);
  const low = (archive | 0) ^ Math.imul(position | 0, 0x9e3779b1);
  return combine(high ^ Math.imul(position | 0, multiplierA), low);
}
