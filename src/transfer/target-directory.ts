/**
 * A directory that is restored into, held open. Everything in it is reached through its descriptor
 * (`/proc/self/fd/N/NAME`), one name at a time and never through a link, so neither an archive nor somebody who
 * swaps a directory for a link meanwhile can lead a restore out of its target.
 *
 * Without procfs (no Linux, a bare chroot) its path stands in for the descriptor: links are refused all the same,
 * but not what is swapped between two calls.
 */
import { randomBytes } from 'node:crypto';
import {
  type BigIntStats,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  statSync,
  unlinkSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { PbsfsError } from '../errors.ts';
import { errnoCode } from './local-error.ts';

/** Only us, until its own mode is set when it is complete. */
const unfinishedMode = 0o700;
const usualMode = 0o777;
const openFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const procDescriptors = '/proc/self/fd';
const hasProc = existsSync(procDescriptors);

export class TargetDirectory implements Disposable {
  readonly fd: number;
  /** Nothing was in it: it was made for this restore, or found empty. */
  readonly isNew: boolean;
  readonly #base: Buffer;
  /** Still has the permissions that keep others out. */
  #isClosed = false;

  private constructor(fd: number, path: Buffer, isNew: boolean) {
    this.fd = fd;
    this.isNew = isNew;
    this.#base = hasProc ? Buffer.from(`${procDescriptors}/${fd}`) : path;
  }

  /** Opens the directory that the user named, made with its parents where it is missing. */
  static openRoot(path: string): TargetDirectory {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found?.isDirectory() === false) {
      throw new PbsfsError('not-directory', 'is not a directory');
    }
    if (found === undefined) {
      mkdirSync(dirname(path), { recursive: true });
      mkdirSync(path, unfinishedMode);
    }
    const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
    const isNew = found === undefined || readdirSync(path).length === 0;
    const root = new TargetDirectory(fd, Buffer.from(path), isNew);
    root.#isClosed = found === undefined;
    return root;
  }

  /** Gives a root that was made here the usual permissions, where it gets none of its own. */
  openUp(): void {
    if (this.#isClosed) fchmodSync(this.fd, usualMode & ~process.umask());
  }

  /** Path of a child for a system call that does not follow its last name. */
  pathOf(name: Buffer): Buffer {
    return Buffer.concat([this.#base, Buffer.from('/'), name]);
  }

  /** What stands under that name, a link as itself; undefined where nothing does. */
  find(name: Buffer): BigIntStats | undefined {
    return lstatSync(this.pathOf(name), { throwIfNoEntry: false, bigint: true });
  }

  /** An existing child. @throws an errno error: `ENOTDIR` or `ELOOP` for anything but a directory. */
  openChild(name: Buffer): TargetDirectory {
    const path = this.pathOf(name);
    return new TargetDirectory(openSync(path, openFlags), path, false);
  }

  /** The directory at a path below this one, opened name by name. */
  openPath(names: readonly Buffer[]): TargetDirectory {
    let opened = this.openChild(Buffer.from('.'));
    for (const name of names) {
      using outer = opened;
      opened = outer.openChild(name);
    }
    return opened;
  }

  /**
   * Makes a child, or opens the one that is there.
   * @param replaces remove what stands there and is no directory.
   */
  makeChild(name: Buffer, replaces: boolean): TargetDirectory {
    const path = this.pathOf(name);
    try {
      mkdirSync(path, unfinishedMode);
    } catch (error) {
      if (errnoCode(error) !== 'EEXIST') throw error;
      if (!replaces || this.find(name)?.isDirectory() !== false) return this.openChild(name);
      unlinkSync(path);
      mkdirSync(path, unfinishedMode);
    }
    return new TargetDirectory(openSync(path, openFlags), path, true);
  }

  /**
   * A place for something new. What stands there is left alone until the new thing is complete.
   * @throws PbsfsError `failed` where something stands there and is not to be replaced, or is a directory.
   */
  placeFor(name: Buffer, replaces: boolean): Place {
    // In a directory of our own only a name that comes twice is there, and making it fails.
    const found = this.isNew && !replaces ? undefined : this.find(name);
    if (found === undefined) return new Place(this.pathOf(name));
    if (found.isDirectory()) throw new PbsfsError('failed', 'a directory stands there already');
    if (!replaces) {
      throw new PbsfsError('failed', 'exists already', { hint: '--overwrite replaces it' });
    }
    const temporary = Buffer.from(`.pbsfs-${randomBytes(8).toString('hex')}`);
    return new Place(this.pathOf(temporary), this.pathOf(name));
  }

  [Symbol.dispose](): void {
    closeSync(this.fd);
  }
}

/** Where something is made. Unless it is completed, disposal takes it away again. */
export class Place implements Disposable {
  readonly #path: Buffer;
  readonly #final: Buffer | undefined;
  #isMade = false;

  constructor(path: Buffer, final?: Buffer) {
    this.#path = path;
    this.#final = final;
  }

  /** @param action a call that makes something at `path` and fails where that exists. */
  make<T>(action: (path: Buffer) => T): T {
    const made = action(this.#path);
    this.#isMade = true;
    return made;
  }

  /**
   * Gives what was made its name.
   * @param finish what is to be done before. Where it fails, the thing is there all the same.
   */
  complete(finish: (path: Buffer) => void): void {
    try {
      finish(this.#path);
    } finally {
      if (this.#final !== undefined) renameSync(this.#path, this.#final);
      this.#isMade = false;
    }
  }

  [Symbol.dispose](): void {
    if (this.#isMade) unlinkSync(this.#path);
  }
}
