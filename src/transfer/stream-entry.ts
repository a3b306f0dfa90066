/** An entry on its way into a stream: all that has to be known before the first byte of it is written. */
import { isPbsfsError } from '../errors.ts';
import type { Node, OpenFile } from '../tree/node.ts';
import { type Metadata, readMetadata } from './metadata.ts';
import { readFully } from './read-steps.ts';
import { type OnDamage, readWithZeros } from './salvage.ts';
import type { SelectedEntry } from './selection.ts';

export interface StreamEntry {
  /** Names in the stream; none for its top. */
  readonly path: readonly Buffer[];
  readonly kind: Node['kind'];
  readonly metadata: Metadata;
  /** Bytes of content; 0 for what has none. */
  readonly size: number;
  /** Target of a link, else empty. */
  readonly destination: Buffer;
  /** Exactly `size` bytes; zeros where the file is damaged. */
  content(): AsyncIterable<Uint8Array>;
}

/** Takes entries in order, a directory before what is in it. */
export interface StreamFormat {
  /**
   * Writes an entry.
   * @param linkTo an earlier path in the stream that this is another name of.
   * @throws PbsfsError `unsupported` for what the format cannot hold; nothing of it is written then.
   */
  add(entry: StreamEntry, linkTo: readonly Buffer[] | undefined): Promise<void>;
  /** Writes what comes behind the last entry. */
  end(): Promise<void>;
}

/** A file up to this size is read while the ones before it are written. */
const smallBytes = 1024 * 1024;

export class PreparedEntry implements AsyncDisposable {
  readonly selected: SelectedEntry;
  readonly metadata: Metadata;
  readonly destination: Buffer;
  readonly #file: OpenFile | undefined;
  /** The content of a small file that is not damaged. */
  readonly #small: readonly Uint8Array[] | undefined;

  private constructor(
    selected: SelectedEntry,
    metadata: Metadata,
    parts: { destination?: Buffer; file?: OpenFile; small?: readonly Uint8Array[] | undefined },
  ) {
    this.selected = selected;
    this.metadata = metadata;
    this.destination = parts.destination ?? Buffer.alloc(0);
    this.#file = parts.file;
    this.#small = parts.small;
  }

  /** @throws PbsfsError where it cannot be opened. */
  static async prepare(selected: SelectedEntry, signal: AbortSignal): Promise<PreparedEntry> {
    const { node } = selected;
    const metadata = await readMetadata(node, selected.path.length === 0, signal);
    if (node.kind === 'symlink') {
      return new PreparedEntry(selected, metadata, { destination: await node.target(signal) });
    }
    if (node.kind !== 'file') return new PreparedEntry(selected, metadata, {});
    const file = await node.open(signal);
    const small = await readSmall(file, signal);
    return new PreparedEntry(selected, metadata, { file, small });
  }

  /** The size that a stream announces. */
  get size(): number {
    return this.#file?.size ?? 0;
  }

  async *content(signal: AbortSignal, onDamage: OnDamage): AsyncGenerator<Uint8Array> {
    if (this.#small !== undefined) yield* this.#small;
    else if (this.#file !== undefined) yield* readWithZeros(this.#file, signal, onDamage);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file?.[Symbol.asyncDispose]();
  }
}

/** Undefined where it is large, or damaged: then it is read piece by piece in its turn. */
async function readSmall(
  file: OpenFile,
  signal: AbortSignal,
): Promise<readonly Uint8Array[] | undefined> {
  if (file.size > smallBytes) return undefined;
  try {
    return await readFully(file, 0, file.size, signal);
  } catch (error) {
    if (isPbsfsError(error, 'corrupt', 'chunk-missing')) return undefined;
    await file[Symbol.asyncDispose]();
    throw error;
  }
}
