/**
 * The few calls of the C library that Node does not offer, through `koffi`: receiving a descriptor over a
 * socket, waiting until a device can be read, giving memory back, and ending without waiting for threads.
 * `koffi` is optional, so it is loaded when first needed.
 *
 *   msghdr   0 name, 8 name length, 16 -> iovec, 24 iovecs, 32 -> control, 40 control length, 48 flags
 *   iovec    0 -> data, 8 length
 *   control  0 u64 length, 8 i32 level, 12 i32 type, 16 i32 descriptor
 *
 * These are the layouts of 64-bit little-endian Linux, glibc and musl alike.
 */
import { constants } from 'node:fs';
import { endianness } from 'node:os';
import { PbsfsError } from '../../errors.ts';

export interface Libc {
  /** Two connected stream sockets. */
  socketPair(): readonly [number, number];
  /** The descriptor that comes with one byte over `socket`; undefined where the other end closes first. */
  receiveDescriptor(socket: number): Promise<number | undefined>;
  /** Calls back whenever `descriptor`, made non-blocking, can be read, until the result is closed. */
  watch(descriptor: number, onReadable: () => void): { close(): void };
  /** Gives memory that was freed back to the system, where the C library keeps it. */
  trimMemory(): void;
  /** Ends the process at once: nothing is waited for, nothing is flushed. */
  exit(code: number): void;
}

/** Values of `asm-generic/socket.h`, `fcntl.h` and `linux/socket.h`. */
const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0o2000000;
const MSG_CMSG_CLOEXEC = 0x40000000;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
const F_GETFL = 3;
const F_SETFL = 4;

type Koffi = typeof import('koffi').default;
type NativeFunction = ReturnType<ReturnType<Koffi['load']>['func']>;

/** @throws PbsfsError `unsupported` where `koffi` is not there or does not fit this machine. */
export async function loadLibc(): Promise<Libc> {
  if (process.platform !== 'linux' || endianness() !== 'LE' || !/64/.test(process.arch)) {
    throw new PbsfsError('unsupported', `not for ${process.platform} on ${process.arch}`);
  }
  const koffi = await loadKoffi();
  const libc = koffi.load(null);
  const socketpair = libc.func('int socketpair(int, int, int, void *)');
  const recvmsg = libc.func('long recvmsg(int, void *, int)');
  const fcntl = libc.func('int fcntl(int, int, ...)');
  return {
    socketPair: () => {
      const pair = Buffer.alloc(8);
      const result: number = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
      if (result !== 0) throw new PbsfsError('failed', 'cannot make a pair of sockets');
      return [pair.readInt32LE(0), pair.readInt32LE(4)];
    },
    receiveDescriptor: (socket) => receiveDescriptor(koffi, recvmsg, socket),
    watch: (descriptor, onReadable) => {
      const flags: number = fcntl(descriptor, F_GETFL);
      fcntl(descriptor, F_SETFL, 'int', flags | constants.O_NONBLOCK);
      const handle = koffi.node.poll(descriptor, { readable: true }, onReadable);
      return { close: () => handle.close() };
    },
    trimMemory: bindTrim(libc),
    exit: libc.func('void _exit(int)'),
  };
}

/** malloc_trim(3) of glibc; musl has neither the call nor the need. */
function bindTrim(libc: ReturnType<Koffi['load']>): () => void {
  try {
    const trim = libc.func('int malloc_trim(size_t)');
    return () => trim(0);
  } catch {
    return () => {};
  }
}

async function loadKoffi(): Promise<Koffi> {
  try {
    return (await import('koffi')).default;
  } catch (cause) {
    throw new PbsfsError('unsupported', 'the npm package koffi does not load', {
      hint: 'install it: npm install koffi',
      cause,
    });
  }
}

async function receiveDescriptor(
  koffi: Koffi,
  recvmsg: NativeFunction,
  socket: number,
): Promise<number | undefined> {
  const data = Buffer.alloc(1);
  const iovec = Buffer.alloc(16);
  const control = Buffer.alloc(24);
  const message = Buffer.alloc(56);
  iovec.writeBigUInt64LE(koffi.address(data), 0);
  iovec.writeBigUInt64LE(BigInt(data.length), 8);
  message.writeBigUInt64LE(koffi.address(iovec), 16);
  message.writeBigUInt64LE(1n, 24);
  message.writeBigUInt64LE(koffi.address(control), 32);
  message.writeBigUInt64LE(BigInt(control.length), 40);
  const length = await new Promise<number>((resolve, reject) => {
    recvmsg.async(socket, message, MSG_CMSG_CLOEXEC, (error: unknown, result: number) => {
      if (error) reject(error);
      // All four are still needed here, so the garbage collector leaves their memory alone until now.
      else resolve(data.length === 1 && iovec.length === 16 ? result : -1);
    });
  });
  const isDescriptor =
    length === 1 && control.readInt32LE(8) === SOL_SOCKET && control.readInt32LE(12) === SCM_RIGHTS;
  return isDescriptor ? control.readInt32LE(16) : undefined;
}
