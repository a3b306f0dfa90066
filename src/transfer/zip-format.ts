/**
 * Writes zip archives as a stream: directories, files and links, with permissions, owners and whole seconds.
 *
 * Names are written as they are; those that are UTF-8 are marked as such. Own code, since zip packages take names as
 * text, and the one we tried (yazl) takes a time that grows with the square of the number of entries.
 */
import { pipeline } from 'node:stream';
import { promisify } from 'node:util';
import { crc32, createDeflateRaw, deflateRaw, deflateRawSync } from 'node:zlib';
import { PbsfsError } from '../errors.ts';
import type { Attributes } from '../tree/node.ts';
import type { TransferReport } from './report.ts';
import { GatheringSink, type Sink } from './sink.ts';
import type { StreamEntry, StreamFormat } from './stream-entry.ts';
import { joinPath } from './stream-path.ts';
import {
  encodeCentralHeader,
  encodeDataDescriptor,
  encodeEnd,
  encodeLocalHeader,
  type ZipEntry,
} from './zip-records.ts';

const deflate = promisify(deflateRaw);
/** Up to this size content is compressed as a whole, so that its sizes can stand in front of it. */
const smallBytes = 1024 * 1024;
/** The length of a path has two bytes. */
const maxPathBytes = 0xffff;
/** Central headers that are joined to one buffer while they wait. */
const joinedHeaders = 1024;

export class ZipFormat implements StreamFormat {
  readonly #sink: GatheringSink;
  readonly #report: TransferReport;
  #offset = 0;
  #entries = 0;
  /** Central headers, which come behind everything. */
  readonly #joined: Buffer[] = [];
  #headers: Buffer[] = [];

  constructor(sink: Sink, report: TransferReport) {
    this.#sink = new GatheringSink(sink);
    this.#report = report;
  }

  async add(entry: StreamEntry, linkTo: readonly Buffer[] | undefined): Promise<void> {
    // The top has no name, and a zip archive no entry without one.
    if (entry.path.length === 0) return;
    if (entry.kind !== 'file' && entry.kind !== 'directory' && entry.kind !== 'symlink') {
      this.#report.lose('device nodes, fifos and sockets (zip has none)');
      return;
    }
    const path = joinPath(entry.kind === 'directory' ? [...entry.path, nothing] : entry.path);
    if (path.length > maxPathBytes) {
      throw new PbsfsError(
        'unsupported',
        `a zip archive cannot hold a path of ${path.length} bytes`,
      );
    }
    if (linkTo !== undefined) this.#report.lose('hard links (written as files of their own)');
    if (entry.metadata.xattrs.length > 0) this.#report.lose('extended attributes (zip has none)');
    const { attributes } = entry.metadata;
    if (entry.kind === 'directory') await this.#writeWhole(path, attributes, nothing);
    else if (entry.kind === 'symlink') await this.#writeWhole(path, attributes, entry.destination);
    else if (entry.size > smallBytes) await this.#writeStreamed(path, attributes, entry);
    else await this.#writeWhole(path, attributes, await readAll(entry.content()));
  }

  async end(): Promise<void> {
    const headers = Buffer.concat([...this.#joined, ...this.#headers]);
    const end = { entries: this.#entries, size: headers.length, offset: this.#offset };
    await this.#write(headers);
    await this.#write(encodeEnd(end));
    await this.#sink.flush();
  }

  async #writeWhole(path: Buffer, attributes: Attributes, content: Buffer): Promise<void> {
    const compressed = await deflateWhole(content);
    const isDeflated = compressed.length < content.length;
    const stored = isDeflated ? compressed : content;
    const entry: ZipEntry = {
      path,
      attributes,
      isDeflated,
      isStreamed: false,
      crc: crc32(content),
      compressedSize: stored.length,
      size: content.length,
      offset: this.#offset,
    };
    await this.#write(encodeLocalHeader(entry));
    await this.#write(stored);
    this.#remember(entry);
  }

  async #writeStreamed(path: Buffer, attributes: Attributes, entry: StreamEntry): Promise<void> {
    const { size } = entry;
    const offset = this.#offset;
    const known = { path, attributes, isDeflated: true, isStreamed: true, size, offset };
    await this.#write(encodeLocalHeader({ ...known, crc: 0, compressedSize: 0 }));
    const start = this.#offset;
    const crc = await this.#deflate(entry.content());
    const written: ZipEntry = { ...known, crc, compressedSize: this.#offset - start };
    await this.#write(encodeDataDescriptor(written));
    this.#remember(written);
  }

  /** @returns the CRC of the plain bytes. */
  async #deflate(content: AsyncIterable<Uint8Array>): Promise<number> {
    let crc = 0;
    const counted = async function* (): AsyncGenerator<Uint8Array> {
      for await (const bytes of content) {
        crc = crc32(bytes, crc);
        yield bytes;
      }
    };
    for await (const bytes of compress(counted())) await this.#write(bytes);
    return crc;
  }

  async #write(bytes: Uint8Array): Promise<void> {
    this.#offset += bytes.length;
    await this.#sink.write(bytes);
  }

  #remember(entry: ZipEntry): void {
    this.#entries += 1;
    this.#headers.push(encodeCentralHeader(entry));
    if (this.#headers.length < joinedHeaders) return;
    this.#joined.push(Buffer.concat(this.#headers));
    this.#headers = [];
  }
}

const nothing = Buffer.alloc(0);
/** Below this a trip to the thread pool costs more than the work. */
const maxSyncBytes = 64 * 1024;

async function deflateWhole(content: Buffer): Promise<Buffer> {
  return content.length <= maxSyncBytes ? deflateRawSync(content) : await deflate(content);
}

async function readAll(content: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const bytes of content) parts.push(bytes);
  return Buffer.concat(parts);
}

/** Deflated bytes; what the content throws is thrown. */
function compress(content: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const deflated = createDeflateRaw();
  // It destroys `deflated` with the error, and that is what its reader gets.
  pipeline(content, deflated, () => {});
  return deflated;
}
