/**
 * A namespace as a directory: one folder per backup type that has groups (`ct`, `host`, `vm`), and `ns` with
 * the namespaces below it. The root of the mount is one of these.
 */
import {
  type BackupType,
  backupTypes,
  type GroupId,
  maxNamespaceDepth,
  type Namespace,
} from '../formats/snapshot-path.ts';
import type { GroupInfo } from '../repository/repository.ts';
import { directoryAttributes } from './attributes.ts';
import { GroupDirectory } from './group-directory.ts';
import { childInode } from './inode.ts';
import { type Children, ListedDirectory } from './listed-directory.ts';
import type { Attributes } from './node.ts';
import type { TreeContext } from './tree-context.ts';

function inodeOf(parent: number, name: string): number {
  return childInode(parent, Buffer.from(name));
}

export class NamespaceDirectory extends ListedDirectory {
  readonly immutable = false;
  readonly namespace: Namespace;
  readonly #context: TreeContext;

  constructor(context: TreeContext, namespace: Namespace, ino: number) {
    super(ino, context.listingSeconds);
    this.#context = context;
    this.namespace = namespace;
  }

  async attributes(): Promise<Attributes> {
    return directoryAttributes(this.#context.openedAt);
  }

  protected async load(known: Children): Promise<Children> {
    const { repository } = this.#context;
    const [groups, namespaces] = await Promise.all([
      repository.listGroups(this.namespace),
      this.namespace.length < maxNamespaceDepth ? repository.listNamespaces(this.namespace) : [],
    ]);
    const children: Children = new Map();
    for (const type of backupTypes) {
      if (!groups.some((info) => info.group.type === type)) continue;
      children.set(
        type,
        known.get(type) ??
          new TypeDirectory(this.#context, this.namespace, type, inodeOf(this.ino, type)),
      );
    }
    if (namespaces.length > 0) {
      children.set(
        'ns',
        known.get('ns') ??
          new NamespacesDirectory(this.#context, this.namespace, inodeOf(this.ino, 'ns')),
      );
    }
    return children;
  }
}

/** `ns`: the namespaces directly below one. */
class NamespacesDirectory extends ListedDirectory {
  readonly immutable = false;
  readonly #context: TreeContext;
  readonly #parent: Namespace;

  constructor(context: TreeContext, parent: Namespace, ino: number) {
    super(ino, context.listingSeconds);
    this.#context = context;
    this.#parent = parent;
  }

  async attributes(): Promise<Attributes> {
    return directoryAttributes(this.#context.openedAt);
  }

  protected async load(known: Children): Promise<Children> {
    const children: Children = new Map();
    for (const namespace of await this.#context.repository.listNamespaces(this.#parent)) {
      const name = namespace.at(-1) ?? '';
      const node =
        known.get(name) ??
        new NamespaceDirectory(this.#context, namespace, inodeOf(this.ino, name));
      children.set(name, node);
    }
    return children;
  }
}

/** `vm`, `ct` or `host`: the groups of one type in one namespace. */
class TypeDirectory extends ListedDirectory {
  readonly immutable = false;
  readonly #context: TreeContext;
  readonly #namespace: Namespace;
  readonly #type: BackupType;

  constructor(context: TreeContext, namespace: Namespace, type: BackupType, ino: number) {
    super(ino, context.listingSeconds);
    this.#context = context;
    this.#namespace = namespace;
    this.#type = type;
  }

  async attributes(): Promise<Attributes> {
    return directoryAttributes(this.#context.openedAt);
  }

  /** The time of a group may need a listing of its own. */
  protected override get cheapAttributes(): boolean {
    return false;
  }

  protected async load(known: Children): Promise<Children> {
    const children: Children = new Map();
    for (const info of await this.#context.repository.listGroups(this.#namespace)) {
      if (info.group.type !== this.#type) continue;
      children.set(info.group.id, this.#groupDirectory(info, known.get(info.group.id)));
    }
    return children;
  }

  #groupDirectory(info: GroupInfo, known: unknown): GroupDirectory {
    if (known instanceof GroupDirectory) {
      known.update(info);
      return known;
    }
    const group: GroupId = info.group;
    return new GroupDirectory(this.#context, info, inodeOf(this.ino, group.id));
  }
}
