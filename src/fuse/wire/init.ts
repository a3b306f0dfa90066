/**
 * The first request of a mount: kernel and server agree on a version, sizes and features.
 *
 *   request  0 u32 major, minor, 8 u32 max_readahead, 12 u32 flags, (16 u32 flags2, padding)
 *   reply    0 u32 major, minor, 8 u32 max_readahead, 12 u32 flags, 16 u16 max_background,
 *            18 u16 congestion_threshold, 20 u32 max_write, 24 u32 time_gran, 28 u16 max_pages,
 *            30 u16 map_alignment, 32 u32 flags2, then padding up to 64
 *
 * Source: `fuse_init_in`, `fuse_init_out` and the INIT flags of `linux/fuse.h`.
 */

export const initRequestSize = 16;

const major = 7;
/** Protocol of Linux 5.4: has all that is used here. Kernels offer more and go down to what we answer. */
const minor = 31;
/** Protocol of Linux 4.18, the oldest kernel that Node 24 runs on. */
const oldestMinor = 27;

/** Bits of `flags`. */
const feature = {
  /** Several reads of one file at once. */
  asyncRead: 1 << 0,
  /** Entries with attributes in every listing: `ls -l` then needs no lookup per name. */
  readdirplus: 1 << 13,
  /** Several lookups and listings of one directory at once. */
  parallelDirectoryOperations: 1 << 18,
  /** `max_pages` counts: requests of more than 128 KiB. */
  maxPages: 1 << 22,
  /** The kernel keeps targets of symbolic links. */
  cacheSymlinks: 1 << 23,
};

/**
 * Not among them: READDIRPLUS_AUTO, by which the kernel takes attributes only while it is asked for them name by name:
 * `find -printf`, `du` and `rsync` read a directory first and ask then, and waited for a lookup per name; locks, so
 * the kernel keeps flock and POSIX locks to itself and they just work; ASYNC_DIO, with which a program that waits for
 * an O_DIRECT read cannot be killed; anything about writing.
 */
const wantedFeatures = Object.values(feature).reduce((all, bit) => all | bit, 0);

/** Most bytes of one READ; `max_read=` of the mount holds the kernel to it. */
export const maxReadSize = 1 << 20;
/** The same in pages of 4 KiB, the kernel's own default limit. */
const maxPages = 256;
/** We take no writes; the kernel sends none below this and needs read buffers of at least 8 KiB for it. */
const maxWrite = 4096;
/** Reads ahead that the kernel keeps going; its default of 12 would starve a parallel fetch. */
const maxBackground = 64;
/** Three quarters, as the kernel's own default is. */
const congestionThreshold = 48;

/** `FUSE_MIN_READ_BUFFER`: what the kernel needs where `max_write` is 4096. */
export const requestBufferSize = 8192;

/** The reply to INIT, or undefined where the kernel speaks a protocol that is too old, or another one. */
export function negotiate(body: Buffer): Buffer | undefined {
  const kernelMajor = body.readUInt32LE(0);
  const kernelMinor = body.readUInt32LE(4);
  if (kernelMajor !== major || kernelMinor < oldestMinor) return undefined;
  const reply = Buffer.alloc(64);
  reply.writeUInt32LE(major, 0);
  reply.writeUInt32LE(Math.min(minor, kernelMinor), 4);
  reply.writeUInt32LE(body.readUInt32LE(8), 8);
  reply.writeUInt32LE((body.readUInt32LE(12) & wantedFeatures) >>> 0, 12);
  reply.writeUInt16LE(maxBackground, 16);
  reply.writeUInt16LE(congestionThreshold, 18);
  reply.writeUInt32LE(maxWrite, 20);
  // Times are given to the nanosecond.
  reply.writeUInt32LE(1, 24);
  reply.writeUInt16LE(maxPages, 28);
  return reply;
}
