/**
 * Gives a restored entry its owner, extended attributes, permissions and time, in that order: a new owner takes
 * set-id bits and capabilities away, an ACL changes permissions, and everything changes times.
 */
import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  futimesSync,
  lchownSync,
  lutimesSync,
  openSync,
} from 'node:fs';
import { PbsfsError } from '../errors.ts';
import type { Attributes, Node, Time, Xattr } from '../tree/node.ts';
import { formatTreeName } from '../tree/tree-path.ts';
import { earlyFlags, lateFlags } from './file-flags.ts';
import { errnoCode } from './local-error.ts';
import type { TransferReport } from './report.ts';
import { type FileReference, notSupportedCodes, type Syscalls } from './syscalls.ts';

export interface Metadata {
  readonly attributes: Attributes;
  readonly xattrs: readonly Xattr[];
}

/**
 * All that can be known of a node beside its content.
 * @param isTop of a walk: what pbsfs itself says of an archive is left out.
 */
export async function readMetadata(
  node: Node,
  isTop: boolean,
  signal?: AbortSignal,
): Promise<Metadata> {
  const attributes = await node.attributes(signal);
  const xattrs = (await node.xattrs?.(signal)) ?? [];
  const isBackedUp = ({ name }: Xattr): boolean =>
    !name.subarray(0, ownPrefix.length).equals(ownPrefix);
  return { attributes, xattrs: isTop ? xattrs.filter(isBackedUp) : xattrs };
}

/** Of what `tree/metadata-xattrs.ts` adds. */
const ownPrefix = Buffer.from('user.pbs.');

/** `O_PATH` of Linux, which Node does not name: refers to a node without opening it. */
const openPath = 0o10000000;
const missingKoffi = '(the package koffi is missing)';
const permissionBits = 0o7777;
const setIdBits = 0o6000;

/** Applies metadata by whatever means there are, and tells the report what could not be done. */
export class MetadataWriter {
  readonly #syscalls: Syscalls | undefined;
  readonly #report: TransferReport;

  /** @param syscalls undefined where they are not to be had: attributes and nanoseconds are lost then. */
  constructor(syscalls: Syscalls | undefined, report: TransferReport) {
    this.#syscalls = syscalls;
    this.#report = report;
  }

  /** What has to be done before there is content. */
  begin(fd: number, { flags = 0 }: Attributes): void {
    this.#addFlags(fd, earlyFlags(flags));
  }

  /** What has to be done last, when a file has its name: it may forbid everything else. */
  end(fd: number, { flags = 0 }: Attributes): void {
    this.#addFlags(fd, lateFlags(flags));
  }

  /**
   * Goes on past what fails.
   * @throws the first failure, at the end: PbsfsError or an errno error.
   */
  apply(file: FileReference, { attributes, xattrs }: Metadata, isLink = false): void {
    const steps = new Steps();
    const isOwned = steps.run(() => this.#setOwner(file, attributes)) === true;
    for (const xattr of xattrs) steps.run(() => this.#setXattr(file, xattr));
    // Somebody else's set-id program must not become one of the restoring user's.
    const mode = attributes.mode & (isOwned ? permissionBits : permissionBits & ~setIdBits);
    // A link has no permissions of its own.
    if (!isLink) steps.run(() => setMode(file, mode));
    steps.run(() => this.#setTime(file, attributes.mtime));
    steps.end();
  }

  #setOwner(file: FileReference, { uid, gid }: Attributes): boolean {
    try {
      if ('fd' in file) fchownSync(file.fd, uid, gid);
      else lchownSync(file.path, uid, gid);
      return true;
    } catch (error) {
      // EINVAL: an id that the user namespace of a container does not have.
      if (!['EPERM', 'EINVAL', ...notSupportedCodes].includes(errnoCode(error) ?? '')) throw error;
      this.#report.lose('owner and group');
      return false;
    }
  }

  #setXattr(file: FileReference, { name, value }: Xattr): void {
    if (this.#syscalls === undefined) {
      this.#report.lose(`${describeXattr(name)} ${missingKoffi}`);
      return;
    }
    try {
      this.#syscalls.setXattr(file, name, value);
    } catch (error) {
      const code = errnoCode(error) ?? '';
      if (['EPERM', 'EACCES', ...notSupportedCodes].includes(code)) {
        this.#report.lose(describeXattr(name));
        return;
      }
      // ENOSPC is the common one, and says nothing of the disk.
      throw new PbsfsError('failed', `cannot set ${formatTreeName(name)}: ${code}`, {
        hint: "the target's filesystem may have too little room for attributes",
      });
    }
  }

  /** Every filesystem has others. */
  #addFlags(fd: number, flags: number): void {
    if (flags === 0) return;
    try {
      if (this.#syscalls === undefined) this.#report.lose(`chattr flags ${missingKoffi}`);
      else this.#syscalls.addFlags(fd, flags);
    } catch (error) {
      if (!['EPERM', 'EINVAL', 'ENOTTY', ...notSupportedCodes].includes(errnoCode(error) ?? '')) {
        throw error;
      }
      this.#report.lose('chattr flags');
    }
  }

  #setTime(file: FileReference, mtime: Time): void {
    if (this.#syscalls !== undefined) {
      this.#syscalls.setMtime(file, mtime);
      return;
    }
    const seconds = mtime.seconds + mtime.nanos / 1e9;
    if ('fd' in file) futimesSync(file.fd, seconds, seconds);
    else lutimesSync(file.path, seconds, seconds);
    if (mtime.nanos !== 0) this.#report.lose(`exact times ${missingKoffi}`);
  }
}

/** Runs one step after the other and keeps the first failure. */
class Steps {
  #first: { readonly error: unknown } | undefined;

  run<T>(step: () => T): T | undefined {
    try {
      return step();
    } catch (error) {
      this.#first ??= { error };
      return undefined;
    }
  }

  end(): void {
    if (this.#first !== undefined) throw this.#first.error;
  }
}

/** `ACLs`, or the namespace: a summary by name would be as long as the list. */
function describeXattr(name: Buffer): string {
  const text = name.toString('latin1');
  if (text.startsWith('system.posix_acl_')) return 'ACLs';
  if (text === 'security.capability') return 'file capabilities';
  return `extended attributes ${text.slice(0, text.indexOf('.') + 1)}*`;
}

function setMode(file: FileReference, mode: number): void {
  if ('fd' in file) {
    fchmodSync(file.fd, mode);
    return;
  }
  if (process.platform !== 'linux') {
    chmodSync(file.path, mode);
    return;
  }
  // chmod(2) would follow a link that has taken the place of the node.
  const fd = openSync(file.path, openPath | constants.O_NOFOLLOW);
  try {
    chmodSync(`/proc/self/fd/${fd}`, mode);
  } finally {
    closeSync(fd);
  }
}
