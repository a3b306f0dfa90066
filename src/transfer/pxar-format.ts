/** Writes pxar archives of format v1 as a stream: everything but the numbers of quota projects. */
import { type EncodableMetadata, type EncodedFile, PxarEncoder } from '../formats/pxar/encode.ts';
import type { Metadata } from './metadata.ts';
import { GatheringSink, type Sink } from './sink.ts';
import type { StreamEntry, StreamFormat } from './stream-entry.ts';
import { joinPath } from './stream-path.ts';

/** Of a top that is not part of what is written. */
const plainTop: EncodableMetadata = {
  mode: 0o040755,
  flags: 0,
  uid: 0,
  gid: 0,
  mtime: { seconds: 0, nanos: 0 },
  xattrs: [],
};

export class PxarFormat implements StreamFormat {
  readonly #sink: GatheringSink;
  readonly #encoder = new PxarEncoder();
  /** Files that have several names, by their first path. */
  readonly #files = new Map<string, EncodedFile>();
  /** Directories that are open, the root included. */
  #depth = 0;

  constructor(sink: Sink) {
    this.#sink = new GatheringSink(sink);
  }

  async add(entry: StreamEntry, linkTo: readonly Buffer[] | undefined): Promise<void> {
    const { path, kind, metadata } = entry;
    const name = path.at(-1);
    if (name === undefined) {
      this.#depth = 1;
      await this.#sink.write(this.#encoder.startRoot(toEncodable(metadata)));
      return;
    }
    await this.#leaveTo(path.length);
    const linked = linkTo === undefined ? undefined : this.#files.get(keyOf(linkTo));
    if (linked !== undefined) await this.#sink.write(this.#encoder.hardLink(name, linked));
    else if (kind === 'file') await this.#writeFile(name, entry);
    else await this.#sink.write(this.#encode(name, entry));
    if (kind === 'directory') this.#depth += 1;
  }

  async end(): Promise<void> {
    await this.#leaveTo(1);
    await this.#sink.write(this.#encoder.endDirectory());
    await this.#sink.flush();
  }

  /** Ends directories until so many are open. */
  async #leaveTo(depth: number): Promise<void> {
    if (this.#depth === 0) {
      this.#depth = 1;
      await this.#sink.write(this.#encoder.startRoot(plainTop));
    }
    for (; this.#depth > depth; this.#depth--) {
      await this.#sink.write(this.#encoder.endDirectory());
    }
  }

  #encode(name: Buffer, { kind, metadata, destination }: StreamEntry): Buffer {
    const encodable = toEncodable(metadata);
    switch (kind) {
      case 'directory':
        return this.#encoder.startDirectory(name, encodable);
      case 'symlink':
        return this.#encoder.symlink(name, encodable, destination);
      case 'block':
      case 'char':
        return this.#encoder.device(name, encodable, metadata.attributes.rdev ?? noDevice);
      default:
        return this.#encoder.ipc(name, encodable);
    }
  }

  async #writeFile(name: Buffer, entry: StreamEntry): Promise<void> {
    const { metadata, size, path } = entry;
    const started = this.#encoder.startFile(name, toEncodable(metadata), size);
    if (metadata.attributes.nlink > 1) this.#files.set(keyOf(path), started);
    await this.#sink.write(started.bytes);
    for await (const bytes of entry.content()) await this.#sink.write(bytes);
  }
}

const noDevice = { major: 0, minor: 0 };

function keyOf(path: readonly Buffer[]): string {
  return joinPath(path).toString('latin1');
}

function toEncodable({ attributes, xattrs }: Metadata): EncodableMetadata {
  const { mode, uid, gid, mtime, flags = 0 } = attributes;
  return { mode, uid, gid, mtime, flags, xattrs };
}
