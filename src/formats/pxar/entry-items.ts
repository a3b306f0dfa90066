/**
 * The items that say what an entry is:
 *
 *   FORMAT_VERSION  version (8): 1, or 2 for a split archive
 *   FILENAME        name, NUL
 *   SYMLINK         target, NUL
 *   HARDLINK        distance back from this FILENAME to that of the target (8), path of the target, NUL
 *   DEVICE          major (8), minor (8)
 *   PAYLOAD_REF     position of the PAYLOAD item in the payload stream (8), size of the file (8)
 *
 * Source: `pxar` crate, `format/mod.rs`.
 */
import { PbsfsError } from '../../errors.ts';
import { readU64 } from '../bytes.ts';
import type { DeviceNumber } from './entry.ts';

/** @throws PbsfsError `unsupported` for a version that is not known. */
export function decodeFormatVersion(content: Buffer): 1 | 2 {
  const version = readU64(content, 0, 'pxar format version');
  if (version === 1 || version === 2) return version;
  throw new PbsfsError('unsupported', `pxar format version ${version} is not known, only 1 and 2`);
}

/** A copy of the name in the content of a FILENAME item. @throws PbsfsError `corrupt` */
export function decodeFileName(content: Buffer): Buffer {
  return Buffer.from(withoutNul(content, 'name'));
}

/** A copy of the target in the content of a SYMLINK item. @throws PbsfsError `corrupt` */
export function decodeSymlink(content: Buffer): Buffer {
  const target = withoutNul(content, 'link target');
  if (target.includes(0)) throw new PbsfsError('corrupt', 'a link target has a NUL in it');
  return Buffer.from(target);
}

function withoutNul(content: Buffer, what: string): Buffer {
  if (content.at(-1) !== 0) throw new PbsfsError('corrupt', `a ${what} has no terminating NUL`);
  return content.subarray(0, -1);
}

/**
 * Position of the file that a HARDLINK item stands for; its path is redundant.
 * @param position of the link's own FILENAME item.
 * @throws PbsfsError `corrupt`
 */
export function decodeHardLink(content: Buffer, position: number): number {
  const distance = readU64(content, 0, 'distance of a hard link');
  if (distance === 0 || distance > position) {
    throw new PbsfsError('corrupt', `a hard link points ${distance} bytes back from ${position}`);
  }
  return position - distance;
}

/** @throws PbsfsError `corrupt` */
export function decodeDevice(content: Buffer): DeviceNumber {
  return {
    major: readU64(content, 0, 'major device number'),
    minor: readU64(content, 8, 'minor device number'),
  };
}

/** @throws PbsfsError `corrupt` */
export function decodePayloadRef(content: Buffer): {
  readonly position: number;
  readonly size: number;
} {
  return {
    position: readU64(content, 0, 'position of a payload'),
    size: readU64(content, 8, 'size of a payload'),
  };
}
