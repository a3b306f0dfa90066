/**
 * The chattr(1) flags of a file: pxar numbers them in its own way, Linux takes them by an ioctl. Some can only be set
 * on an empty file, others forbid what a restore still has to do.
 *
 * Source: `pxar` crate, `format/mod.rs` (`WITH_FLAG_…`); Linux `include/uapi/linux/fs.h` (`FS_…_FL`).
 */

type FlagPair = readonly [pxar: number, linux: number];

/** noatime, compr, nocow, nocomp, projinherit */
const early: readonly FlagPair[] = [
  [0x0002_0000, 0x80],
  [0x0004_0000, 0x4],
  [0x0008_0000, 0x0080_0000],
  [0x0100_0000, 0x400],
  [0x0200_0000, 0x2000_0000],
];
/** append-only, nodump, dirsync, immutable, sync */
const late: readonly FlagPair[] = [
  [0x0001_0000, 0x20],
  [0x0010_0000, 0x40],
  [0x0020_0000, 0x0001_0000],
  [0x0040_0000, 0x10],
  [0x0080_0000, 0x8],
];

/** Linux' flags to set before content is written. */
export function earlyFlags(pxarFlags: number): number {
  return translate(early, pxarFlags);
}

/** Linux' flags to set when all else is done. */
export function lateFlags(pxarFlags: number): number {
  return translate(late, pxarFlags);
}

function translate(pairs: readonly FlagPair[], pxarFlags: number): number {
  return pairs.reduce((flags, [pxar, linux]) => (pxarFlags & pxar ? flags | linux : flags), 0);
}
