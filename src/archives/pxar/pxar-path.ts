/** How messages name an entry: its path in the archive, without a leading slash. */
import type { PxarEntry } from '../../formats/pxar/entry.ts';

/** Path of `entry` for people; control characters show as `?`. */
export function formatPxarPath(entry: Pick<PxarEntry, 'name' | 'parent'>): string {
  const names: string[] = [];
  for (let at: Pick<PxarEntry, 'name' | 'parent'> | undefined = entry; at; at = at.parent) {
    names.push(at.name.toString().replaceAll(/\p{Cc}/gu, '?'));
  }
  // The last one is the root, which has no name.
  return names.reverse().join('/').replace(/^\//, '') || '/';
}
