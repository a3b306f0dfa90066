/**
 * Owner, permissions and time of an entry. Two layouts, little-endian:
 *
 *   ENTRY (40)                        ENTRY_V1 (32), no longer written
 *    0  8  mode: type and permissions  0  8  mode
 *    8  8  flags                       8  8  flags
 *   16  4  uid                        16  4  uid
 *   20  4  gid                        20  4  gid
 *   24  8  seconds, signed            24  8  nanoseconds since the epoch, unsigned
 *   32  4  nanoseconds, 4 of padding
 *
 * Source: `pxar` crate, `format/mod.rs` (`Stat`, `Stat_V1`).
 */
import { PbsfsError } from '../../errors.ts';
import { readU64 } from '../bytes.ts';

export interface PxarStat {
  /** Full `st_mode`. */
  readonly mode: number;
  /** `chattr` flags in pxar's own numbering (`WITH_FLAG_…`); only the low 32 bits are in use. */
  readonly flags: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtime: PxarTime;
}

/** `nanos` is 0…999,999,999 also before 1970. */
export interface PxarTime {
  readonly seconds: number;
  readonly nanos: number;
}

/** `S_IFMT` and permission bits of Linux. */
const modeBits = 0o177777;
const nanosPerSecond = 1_000_000_000;

/** The content of an ENTRY item at `offset`. @throws PbsfsError `corrupt` */
export function decodeStat(bytes: Buffer, offset: number): PxarStat {
  const seconds = bytes.readInt32LE(offset + 28) * 0x1_0000_0000 + bytes.readUInt32LE(offset + 24);
  const nanos = bytes.readUInt32LE(offset + 32);
  if (!Number.isSafeInteger(seconds) || nanos >= nanosPerSecond) {
    throw new PbsfsError('corrupt', `no time: ${seconds} seconds, ${nanos} nanoseconds`);
  }
  return { ...decodeOwnerAndMode(bytes, offset), mtime: { seconds, nanos } };
}

/** The content of an ENTRY_V1 item at `offset`. @throws PbsfsError `corrupt` */
export function decodeStatV1(bytes: Buffer, offset: number): PxarStat {
  const time = bytes.readBigUInt64LE(offset + 24);
  const second = BigInt(nanosPerSecond);
  const mtime = { seconds: Number(time / second), nanos: Number(time % second) };
  return { ...decodeOwnerAndMode(bytes, offset), mtime };
}

function decodeOwnerAndMode(bytes: Buffer, offset: number): Omit<PxarStat, 'mtime'> {
  const mode = readU64(bytes, offset, 'mode');
  if (mode > modeBits) throw new PbsfsError('corrupt', `mode ${mode.toString(8)} has unknown bits`);
  return {
    mode,
    flags: bytes.readUInt32LE(offset + 8),
    uid: bytes.readUInt32LE(offset + 16),
    gid: bytes.readUInt32LE(offset + 20),
  };
}
