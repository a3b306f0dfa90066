/**
 * Names whose file was restored under an earlier name that nobody knows any more (see `HardLinks`). They wait until all
 * else is restored; then one more walk finds the earlier names.
 */
import type { File } from '../tree/node.ts';
import type { Metadata } from './metadata.ts';
import type { Target } from './node-writer.ts';
import type { RestoredDirectory } from './restored-directory.ts';
import type { SelectedEntry } from './selection.ts';

export interface LateName {
  readonly path: readonly Buffer[];
  readonly node: File;
  readonly known: Metadata;
  readonly target: Target;
  readonly parent: RestoredDirectory;
}

export class LateLinks {
  /** By inode number. */
  readonly #names = new Map<number, LateName[]>();

  /** Its directory stays open until it is given back. */
  add(name: LateName): void {
    name.parent.retain();
    const names = this.#names.get(name.node.ino);
    if (names === undefined) this.#names.set(name.node.ino, [name]);
    else names.push(name);
  }

  /**
   * The names of each file, with the paths below the target that an earlier one may have been restored as.
   * @param walk the entries of the restore again.
   */
  async *resolve(walk: () => AsyncIterable<SelectedEntry>): AsyncGenerator<{
    readonly names: readonly LateName[];
    readonly earlier: readonly Buffer[] | undefined;
  }> {
    const waiting = new Map(this.#names);
    if (waiting.size === 0) return;
    for await (const { node, target } of walk()) {
      const names = waiting.get(node.ino);
      if (names === undefined) continue;
      waiting.delete(node.ino);
      yield { names, earlier: target };
      if (waiting.size === 0) return;
    }
    for (const names of waiting.values()) yield { names, earlier: undefined };
  }

  /** Gives all directories back. */
  release(): void {
    for (const names of this.#names.values()) for (const { parent } of names) parent.release();
    this.#names.clear();
  }
}
