/** What is searched for: conditions on name, kind, size and time that must all hold. */
import type { Node } from '../tree/node.ts';
import type { NameGlob } from './name-glob.ts';

export interface FindQuery {
  /** One of them must fit; none means any name. */
  readonly names: readonly NameGlob[];
  /** Undefined for any kind. */
  readonly kinds: ReadonlySet<Node['kind']> | undefined;
  /** Each must hold; then only files match. */
  readonly sizes: readonly ((bytes: number) => boolean)[];
  /** Seconds since the epoch; modified after that. */
  readonly newer: number | undefined;
  /** Modified before that. */
  readonly older: number | undefined;
}

/** Size and time of an entry, as far as the search knows them. */
export interface FoundDetails {
  /** Bytes; undefined for what is no file. */
  readonly size: number | undefined;
  readonly mtime: { readonly seconds: number; readonly nanos: number };
}

/** What can be said without the attributes of an entry. */
export function matchesName(query: FindQuery, name: Uint8Array, kind: Node['kind']): boolean {
  if (query.kinds?.has(kind) === false) return false;
  if (query.sizes.length > 0 && kind !== 'file') return false;
  return query.names.length === 0 || query.names.some((fits) => fits(name));
}

export function matchesDetails(query: FindQuery, { size = 0, mtime }: FoundDetails): boolean {
  const { newer, older, sizes } = query;
  const time = mtime.seconds + mtime.nanos / 1e9;
  if (newer !== undefined && time <= newer) return false;
  if (older !== undefined && time >= older) return false;
  return sizes.every((fits) => fits(size));
}
