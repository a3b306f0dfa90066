/**
 * The seam between a tree and the ways to mount it: a `FuseDriver` makes a directory of the machine show
 * a `Directory` of ours and serves it until the mount goes away.
 */
import type { PbsfsError } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { Directory } from '../tree/node.ts';
import type { AttributeMapping } from './attribute-mapping.ts';

export interface FuseDriver {
  readonly name: DriverName;
  /** The first thing that this machine or this user lacks for a mount, or undefined. */
  missing(): Promise<PbsfsError | undefined>;
  /**
   * Shows `root` at `mountPoint`. Resolves when the mount answers; when it rejects, nothing is left behind.
   * @throws PbsfsError of `prepareMountPoint`; `unsupported`, `access-denied` for what the machine lacks;
   *   `failed` with what the mount program said.
   */
  mount(root: Directory, mountPoint: string, options: MountOptions): Promise<Mount>;
}

export type DriverName = 'kernel' | 'fuse-native';

export interface Mount {
  /** Absolute. `/dev/fd/N` where a parent process had mounted already. */
  readonly mountPoint: string;
  /** Resolves when the mount is gone, by `unmount` or from outside; rejects when serving it failed. */
  readonly done: Promise<void>;
  /**
   * Takes the mount away. A mount that is in use stays and is `busy`; with `lazy` it leaves the tree at
   * once all the same, and who still uses it gets errors.
   */
  unmount(options?: { readonly lazy?: boolean }): Promise<UnmountResult>;
}

export type UnmountResult = 'unmounted' | 'busy';

export interface MountOptions {
  /** Shown as the source of the mount, by `df` and `mount`. */
  readonly source: string;
  /** Size of the repository for `df`. */
  readonly capacity: (signal?: AbortSignal) => Promise<Capacity>;
  readonly logger: Logger;
  /** Owner and permissions as shown; default: as backed up. */
  readonly mapAttributes?: AttributeMapping;
  /** Seconds that names and attributes of what may change (groups, namespaces) are kept; default 2. */
  readonly mutableSeconds?: number;
  /** Other users may enter; default: only who mounted. */
  readonly allowOther?: boolean;
  /** Root may enter, other users not. */
  readonly allowRoot?: boolean;
  /** The kernel checks permission bits; default: as `allowOther`, so that nobody reads more than before. */
  readonly defaultPermissions?: boolean;
  readonly noexec?: boolean;
  /** Most bytes of one read request. */
  readonly maxRead?: number;
  /** A helper unmounts even when this process is killed; a user's helper does so with `allowOther` only. */
  readonly autoUnmount?: boolean;
  /** Mount over a directory that is not empty. */
  readonly nonempty?: boolean;
  /** Paths that must lie neither below nor above the mount point: reading them would wait for the mount. */
  readonly keepApart?: readonly string[];
}

/** Bytes. */
export interface Capacity {
  readonly total: number;
  readonly used: number;
  readonly available: number;
}

/** Default of `mutableSeconds`: a new snapshot shows soon, and one `ls -l` asks each name once. */
export const defaultMutableSeconds = 2;
