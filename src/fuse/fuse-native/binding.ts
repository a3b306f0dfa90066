/**
 * The npm package `fuse-native` 2.2.6 as far as it is used. It is CommonJS, without types, and optional.
 * A callback takes a negative errno, or 0 or a count of bytes, then the result.
 */
import { createRequire } from 'node:module';
import { PbsfsError } from '../../errors.ts';

type Callback<T extends readonly unknown[] = []> = (status: number, ...result: Partial<T>) => void;

export interface NativeStat {
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly nlink: number;
  readonly size: number;
  readonly blocks: number;
  readonly blksize: number;
  readonly rdev: number;
  /** Milliseconds. */
  readonly atime: number;
  readonly mtime: number;
  readonly ctime: number;
}

export interface NativeStatfs {
  readonly bsize: number;
  readonly frsize: number;
  readonly blocks: number;
  readonly bfree: number;
  readonly bavail: number;
  readonly namemax: number;
}

export interface NativeOperations {
  getattr(path: string, callback: Callback<[NativeStat]>): void;
  readdir(path: string, callback: Callback<[string[]]>): void;
  readlink(path: string, callback: Callback<[string]>): void;
  open(path: string, flags: number, callback: Callback<[number]>): void;
  read(
    path: string,
    handle: number,
    target: Buffer,
    length: number,
    position: number,
    callback: Callback,
  ): void;
  release(path: string, handle: number, callback: Callback): void;
  statfs(path: string, callback: Callback<[NativeStatfs]>): void;
  /** Never called, for they do not know the room of the caller: `_op_getxattr` and `_op_listxattr` are replaced. */
  getxattr(): void;
  listxattr(): void;
}

/** Sends the status and gives the caller's memory back. */
type Signal = (status: number, memory: ArrayBufferLike) => void;

export interface NativeMount {
  mount(callback: (error: Error | null) => void): void;
  /** The options for libfuse: `-o` and a list. Replaced, since the package knows neither `ro` nor `nosuid`. */
  _fuseOptions: () => string;
  _op_getxattr: (signal: Signal, path: string, name: string, room: Buffer) => void;
  _op_listxattr: (signal: Signal, path: string, room: Buffer) => void;
}

export type NativeFuse = new (
  mountPoint: string,
  operations: NativeOperations,
  options: { readonly timeout: false },
) => NativeMount;

/** @throws PbsfsError `unsupported` where the package or libfuse 2 is missing. */
export function loadFuseNative(): NativeFuse {
  try {
    return createRequire(import.meta.url)('fuse-native');
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    if (code === 'ERR_DLOPEN_FAILED') {
      throw new PbsfsError('unsupported', 'fuse-native finds no libfuse 2', {
        hint: 'install it (Debian package libfuse2)',
        cause,
      });
    }
    throw new PbsfsError('unsupported', 'the npm package fuse-native does not load', {
      hint: 'install it: npm install fuse-native',
      cause,
    });
  }
}
