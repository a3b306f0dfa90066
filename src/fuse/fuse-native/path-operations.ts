/** The operations of libfuse 2 on a tree. */
import { constants } from 'node:os';
import { PbsfsError, toPbsfsError } from '../../errors.ts';
import { borrow } from '../../read-at.ts';
import type { Directory, OpenFile, Xattr } from '../../tree/node.ts';
import { keepAttributes } from '../attribute-mapping.ts';
import { defaultMutableSeconds, type MountOptions } from '../driver.ts';
import { type ErrnoName, errno, errnoFor } from '../errno.ts';
import { createFailureLog, type FailureLog } from '../failure-log.ts';
import { HandleTable } from '../kernel/handle-table.ts';
import { encodeDevice } from '../wire/attributes.ts';
import { blockSize, maxNameLength } from '../wire/reply.ts';
import type { NativeMount, NativeOperations, NativeStat, NativeStatfs } from './binding.ts';
import { PathResolver } from './path-resolver.ts';

/** The package counts blocks in 32 bits: in units of 1 MiB that reaches to 4 PiB. */
const statfsBlockSize = 1 << 20;
const accessMode = 0o3;

export class PathOperations {
  readonly #resolver: PathResolver;
  readonly #files = new HandleTable<OpenFile>();
  readonly #options: MountOptions;
  readonly #reportFailure: FailureLog;

  constructor(root: Directory, options: MountOptions) {
    this.#resolver = new PathResolver(root, options.mutableSeconds ?? defaultMutableSeconds);
    this.#options = options;
    this.#reportFailure = createFailureLog(options.logger);
  }

  /** What the package calls. */
  get operations(): NativeOperations {
    return {
      getattr: (path, callback) => this.#answer('getattr', () => this.#getattr(path), callback),
      readdir: (path, callback) => this.#answer('readdir', () => this.#readdir(path), callback),
      readlink: (path, callback) => this.#answer('readlink', () => this.#readlink(path), callback),
      open: (path, flags, callback) =>
        this.#answer('open', () => this.#open(path, flags), callback),
      read: (_path, handle, target, length, position, callback) =>
        this.#answer('read', () => this.#read(handle, target, length, position), callback),
      release: (_path, handle, callback) =>
        this.#answer('release', () => this.#release(handle), callback),
      statfs: (_path, callback) => this.#answer('statfs', () => this.#statfs(), callback),
      getxattr: () => {},
      listxattr: () => {},
    };
  }

  /** Replaces the package's own answers for extended attributes, which write beyond a caller's room. */
  serveXattrs(mount: NativeMount): void {
    mount._op_getxattr = (signal, path, name, room) =>
      this.#answer(
        'getxattr',
        async () => {
          const wanted = Buffer.from(name);
          const found = (await this.#xattrs(path, wanted)).find((xattr) =>
            xattr.name.equals(wanted),
          );
          return found === undefined ? refusal('ENODATA') : copyInto(room, found.value);
        },
        (status) => signal(status, room.buffer),
      );
    mount._op_listxattr = (signal, path, room) =>
      this.#answer(
        'listxattr',
        async () => {
          const nul = Buffer.of(0);
          const names = (await this.#xattrs(path)).flatMap((xattr) => [xattr.name, nul]);
          return copyInto(room, Buffer.concat(names));
        },
        (status) => signal(status, room.buffer),
      );
  }

  /** Closes what is open. */
  async end(): Promise<void> {
    await Promise.allSettled(this.#files.takeAll().map((file) => file[Symbol.asyncDispose]()));
  }

  #answer<T>(
    operation: string,
    run: () => Promise<Answer<T>>,
    callback: (status: number, result?: T) => void,
  ): void {
    const failed = (error: unknown): Answer<T> => {
      const known = toPbsfsError(error);
      this.#reportFailure(operation, known);
      return refusal(errnoFor(operation, known.code));
    };
    void run()
      .catch(failed)
      .then((answer) => callback(...answer));
  }

  async #getattr(path: string): Promise<Answer<NativeStat>> {
    const name = path.slice(path.lastIndexOf('/') + 1);
    if (Buffer.byteLength(name) > maxNameLength) return refusal('ENAMETOOLONG');
    const node = await this.#resolver.resolve(path);
    if (node === undefined) return refusal('ENOENT');
    const { mapAttributes = keepAttributes } = this.#options;
    const { mtime, rdev, ...attributes } = mapAttributes(await node.attributes());
    const time = Math.max(0, mtime.seconds * 1000 + Math.floor(mtime.nanos / 1_000_000));
    const times = { atime: time, mtime: time, ctime: time };
    const device = rdev === undefined ? 0 : encodeDevice(rdev);
    return [0, { ...attributes, ...times, blksize: blockSize, rdev: device }];
  }

  async #readdir(path: string): Promise<Answer<string[]>> {
    const node = await this.#resolver.resolve(path);
    if (node?.kind !== 'directory') return refusal(node === undefined ? 'ENOENT' : 'ENOTDIR');
    return [0, ['.', '..', ...(await node.list()).map((entry) => entry.name.toString())]];
  }

  async #readlink(path: string): Promise<Answer<string>> {
    const node = await this.#resolver.resolve(path);
    if (node?.kind !== 'symlink') return refusal(node === undefined ? 'ENOENT' : 'EINVAL');
    return [0, (await node.target()).toString()];
  }

  async #open(path: string, flags: number): Promise<Answer<number>> {
    const node = await this.#resolver.resolve(path);
    if (node?.kind !== 'file') return refusal(node === undefined ? 'ENOENT' : 'EISDIR');
    if ((flags & accessMode) !== 0) return refusal('EROFS');
    return [0, this.#files.add(await node.open())];
  }

  async #read(
    handle: number,
    target: Buffer,
    length: number,
    position: number,
  ): Promise<Answer<never>> {
    const file = this.#files.get(handle);
    if (file === undefined) return refusal('EBADF');
    if (position >= file.size) return [0];
    const expected = Math.min(length, file.size - position);
    let at = 0;
    using loan = await borrow(file, position, length);
    for (const slice of loan.slices) {
      target.set(slice, at);
      at += slice.length;
    }
    if (at === expected) return [at];
    throw new PbsfsError('bug', `a read gave ${at} of ${expected} bytes`, {
      context: { offset: position },
    });
  }

  async #release(handle: number): Promise<Answer<never>> {
    await this.#files.take(handle)?.[Symbol.asyncDispose]();
    return [0];
  }

  async #statfs(): Promise<Answer<NativeStatfs>> {
    const { total, used, available } = await this.#options.capacity();
    const blocks = (size: number): number => Math.max(0, Math.floor(size / statfsBlockSize));
    return [
      0,
      {
        bsize: statfsBlockSize,
        frsize: statfsBlockSize,
        blocks: Math.max(1, blocks(total)),
        bfree: blocks(total - used),
        bavail: blocks(available),
        namemax: maxNameLength,
      },
    ];
  }

  async #xattrs(path: string, wanted?: Buffer): Promise<readonly Xattr[]> {
    const node = await this.#resolver.resolve(path);
    return (await node?.xattrs?.(undefined, wanted)) ?? [];
  }
}

/** A negative errno, or 0 or a count of bytes; then the result. */
type Answer<T> = [status: number, result?: T];

/** Other systems have other numbers, and none for keys. */
function refusal(name: ErrnoName): [number] {
  const native = new Map<string, number>(Object.entries(constants.errno));
  const fallback = process.platform === 'linux' ? errno[name] : constants.errno.EACCES;
  return [-(native.get(name) ?? fallback)];
}

/** A caller that offers no room asks for the size. */
function copyInto(room: Buffer, value: Buffer): [number] {
  if (room.length > 0 && value.length > room.length) return refusal('ERANGE');
  value.copy(room);
  return [value.length];
}
