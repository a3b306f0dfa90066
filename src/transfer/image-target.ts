/**
 * What an image is restored to: a regular file, which keeps holes; a block device, which has none; or a pipe,
 * which takes the bytes in order.
 */
import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { PbsfsError } from '../errors.ts';
import { DiskTarget } from './disk-target.ts';
import { errnoCode, toLocalError } from './local-error.ts';
import { PipeTarget } from './pipe-target.ts';
import { zeroOutDevice } from './zero-out-device.ts';

/** Bytes that are written at positions, in any order and several at once. */
export interface PositionedTarget extends AsyncDisposable {
  readonly kind: 'positioned';
  write(bytes: Uint8Array, offset: number): Promise<void>;
  /** Makes `[start, end)` read as zeros. */
  zero(start: number, end: number): Promise<void>;
  /** What is there now; short where the target ends. */
  read(offset: number, length: number): Promise<Buffer>;
  /** Returns when everything has reached the disk. */
  sync(): Promise<void>;
}

/** Bytes that are written one after the other. */
export interface SequentialTarget extends AsyncDisposable {
  readonly kind: 'sequential';
  write(bytes: Uint8Array): Promise<void>;
}

export type ImageTarget = PositionedTarget | SequentialTarget;

export interface ImageTargetOptions {
  /** Go on with what an earlier restore has left there. */
  readonly resume?: boolean;
  /** Replace a file that is there. */
  readonly overwrite?: boolean;
  /** The device is known to hold nothing but zeros. */
  readonly skipZero?: boolean;
  /** Let the device make zeros by itself, freeing the space where it can. */
  readonly discard?: boolean;
}

/**
 * Opens the target at `path`, or standard output for `-`, for an image of `size` bytes.
 * @throws PbsfsError `is-directory`, `access-denied`, `failed`; `usage` for options that do not fit the target
 */
export async function openImageTarget(
  path: string,
  size: number,
  options: ImageTargetOptions = {},
): Promise<ImageTarget> {
  try {
    if (path === '-') return openPipe(path, options);
    const stats = await statIfExists(path);
    if (stats === undefined) return await createFile(path, size);
    if (stats.isDirectory()) {
      throw new PbsfsError('is-directory', 'is a directory', { hint: 'name a file in it' });
    }
    if (stats.isFile()) return await openFile(path, stats.size, size, options);
    if (stats.isBlockDevice()) return await openDevice(path, size, options);
    return await openPipe(path, options);
  } catch (error) {
    throw path === '-' ? toLocalError(error) : toLocalError(error).at({ path });
  }
}

async function statIfExists(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function createFile(path: string, size: number): Promise<ImageTarget> {
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL);
  await handle.truncate(size);
  await syncDirectory(path);
  return new DiskTarget(handle, path, { zeros: 'there' });
}

/** So that the name of a new file outlives a crash as well as its content. */
async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  await directory.sync();
}

async function openFile(
  path: string,
  present: number,
  size: number,
  options: ImageTargetOptions,
): Promise<ImageTarget> {
  const isFresh = present === 0 || (options.overwrite === true && options.resume !== true);
  if (!isFresh && present > size) {
    throw new PbsfsError('failed', `file has ${present} bytes, the image only ${size}`, {
      hint: 'it was not left by a restore of this image; use --overwrite to replace it',
    });
  }
  if (!isFresh && options.resume !== true) {
    throw new PbsfsError('failed', `file exists and has ${present} bytes`, {
      hint: 'use --resume to go on with a broken restore, or --overwrite to replace it',
    });
  }
  const handle = await open(path, 'r+');
  if (isFresh) await handle.truncate(0);
  await handle.truncate(size);
  return new DiskTarget(handle, path, { zeros: isFresh ? 'there' : 'compare' });
}

async function openDevice(
  path: string,
  size: number,
  options: ImageTargetOptions,
): Promise<ImageTarget> {
  const handle = await openExclusively(path);
  const { bytesRead } = await handle.read(Buffer.alloc(1), 0, 1, Math.max(size - 1, 0));
  if (size > 0 && bytesRead === 0) {
    await handle.close();
    throw new PbsfsError('failed', `device is smaller than the image of ${size} bytes`);
  }
  if (options.skipZero === true) return new DiskTarget(handle, path, { zeros: 'there' });
  if (options.resume === true) return new DiskTarget(handle, path, { zeros: 'compare' });
  if (options.discard !== true) return new DiskTarget(handle, path, { zeros: 'write' });
  return new DiskTarget(handle, path, {
    zeros: 'device',
    zeroOut: (start, end) => zeroOutDevice(path, start, end),
  });
}

/** `O_EXCL` on a device: not while it is mounted, or a part of something else. */
async function openExclusively(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDWR | constants.O_EXCL);
  } catch (error) {
    if (errnoCode(error) !== 'EBUSY') throw error;
    throw new PbsfsError('failed', 'device is in use', {
      hint: 'unmount it, or stop the volume that it is a part of',
      cause: error,
    });
  }
}

async function openPipe(path: string, options: ImageTargetOptions): Promise<ImageTarget> {
  const unfit = (['resume', 'skipZero', 'discard'] as const).find((name) => options[name] === true);
  if (unfit !== undefined) {
    const flag = { resume: '--resume', skipZero: '--skip-zero', discard: '--discard' }[unfit];
    throw new PbsfsError('usage', `${flag} needs a file or a block device as its target`);
  }
  return path === '-' ? PipeTarget.standardOutput() : PipeTarget.open(path);
}
