/**
 * The system calls of Linux that a restore needs and Node does not have, through the optional package `koffi`:
 * extended attributes, device nodes, and times to the nanosecond.
 *
 *   lsetxattr(2) fsetxattr(2)   utimensat(2) futimens(3)   mknod(2)   ioctl(2) for chattr(1) flags
 */
import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import type { Time } from '../tree/node.ts';

/** What is changed: an open file, or a path whose last name is not followed where it is a link. */
export type FileReference = { readonly fd: number } | { readonly path: Buffer };

/** Each throws an error with a `code` such as `EPERM`, as Node's own calls do. */
export interface Syscalls {
  setXattr(file: FileReference, name: Buffer, value: Buffer): void;
  /** Sets the time of the last modification, and leaves that of the last access. */
  setMtime(file: FileReference, mtime: Time): void;
  /** @param mode type and permission bits; the umask applies. */
  makeNode(path: Buffer, mode: number, rdev: { major: number; minor: number }): void;
  /** Sets chattr(1) flags of Linux beside those that are set. */
  addFlags(fd: number, flags: number): void;
}

/** From Linux' `fcntl.h` and `sys/stat.h`; the same on every architecture. */
const atCurrentDirectory = -100;
const atSymlinkNoFollow = 0x100;
const utimeOmit = 0x3ffffffe;
/** `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS` where a long has 8 bytes; what they move has 4. */
const getFlags = 0x80086601;
const setFlags = 0x40086602;
/** Other architectures number their ioctls in another way. */
const ioctlArchitectures: readonly string[] = ['x64', 'arm64', 'riscv64', 'loong64'];

/** The calls, or undefined where there is no `koffi` or this is not Linux. */
export async function loadSyscalls(): Promise<Syscalls | undefined> {
  if (process.platform !== 'linux') return undefined;
  try {
    return bindSyscalls((await import('koffi')).default);
  } catch {
    return undefined;
  }
}

type Koffi = typeof import('koffi').default;

function bindSyscalls(koffi: Koffi): Syscalls {
  const library = koffi.load(null);
  const timespec = koffi.struct({ tv_sec: 'long', tv_nsec: 'long' });
  const times = koffi.pointer(timespec);
  const bytes = 'const uint8_t *';
  const fsetxattr = library.func('fsetxattr', 'int', ['int', bytes, bytes, 'size_t', 'int']);
  const lsetxattr = library.func('lsetxattr', 'int', [bytes, bytes, bytes, 'size_t', 'int']);
  const futimens = library.func('futimens', 'int', ['int', times]);
  const utimensat = library.func('utimensat', 'int', ['int', bytes, times, 'int']);
  const mknod = bindMknod(library);
  const ioctl = library.func('int ioctl(int fd, unsigned long request, ...)');
  const check = (call: string, result: unknown): void => {
    if (result !== 0) throw systemError(call, koffi.errno());
  };
  return {
    setXattr: (file, name, value) => {
      const rest = [terminated(name), value, value.length, 0];
      if ('fd' in file) check('fsetxattr', fsetxattr(file.fd, ...rest));
      else check('lsetxattr', lsetxattr(terminated(file.path), ...rest));
    },
    setMtime: (file, { seconds, nanos }) => {
      const pair = [
        { tv_sec: 0, tv_nsec: utimeOmit },
        { tv_sec: seconds, tv_nsec: nanos },
      ];
      if ('fd' in file) {
        check('futimens', futimens(file.fd, pair));
        return;
      }
      const path = terminated(file.path);
      check('utimensat', utimensat(atCurrentDirectory, path, pair, atSymlinkNoFollow));
    },
    makeNode: (path, mode, rdev) => {
      check('mknod', mknod(terminated(path), mode, deviceNumber(rdev)));
    },
    addFlags: (fd, flags) => {
      if (!ioctlArchitectures.includes(process.arch))
        throw systemError('ioctl', constants.errno.ENOTSUP);
      // Long enough where a driver takes the size in the request at its word.
      const value = Buffer.alloc(8);
      check('ioctl', ioctl(fd, getFlags, 'uint8_t *', value));
      value.writeInt32LE(value.readInt32LE(0) | flags, 0);
      check('ioctl', ioctl(fd, setFlags, 'uint8_t *', value));
    },
  };
}

type Mknod = (path: Buffer, mode: number, device: bigint) => unknown;

function bindMknod(library: ReturnType<Koffi['load']>): Mknod {
  const path = 'const uint8_t *';
  try {
    return library.func('mknod', 'int', [path, 'uint32_t', 'uint64_t']);
  } catch {
    // glibc before 2.33 has it under this name only, with a version of the structure and a pointer.
    const xmknod = library.func('__xmknod', 'int', ['int', path, 'uint32_t', 'const uint64_t *']);
    return (bytes, mode, device) => xmknod(0, bytes, mode, [device]);
  }
}

function terminated(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(1)]);
}

/** `dev_t` of the C library: 32 bits each of the major and the minor number, interleaved. */
function deviceNumber({ major, minor }: { major: number; minor: number }): bigint {
  const [high, low] = [BigInt(major), BigInt(minor)];
  return (
    ((high & 0xfffn) << 8n) |
    ((high & 0xfffff000n) << 32n) |
    (low & 0xffn) |
    ((low & 0xffffff00n) << 12n)
  );
}

function systemError(call: string, errno: number): Error {
  const code = getSystemErrorName(-errno);
  return Object.assign(new Error(`${call}: ${code}`), { code, errno: -errno, syscall: call });
}

/** Names of the errors by which a filesystem says that it has no such attribute. */
export const notSupportedCodes: readonly string[] = ['ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].filter(
  (name) => name in constants.errno,
);
