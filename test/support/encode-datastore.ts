/**
 * Writes whole datastore directories for tests, and breaks them on purpose. Test-only, on its own reading of
 * the formats (`encode-formats.ts`): nothing here comes from `src/`.
 *
 *   using store = temporaryDatastore();
 *   const written = writeSnapshot(store.path, {
 *     group: 'vm/100', time: 1_700_000_000,
 *     images: { 'drive-scsi0.img': data },                        // 4 MiB chunks
 *     archives: { 'root.pxar': { data: pxar, chunkSize: 65536 } },  // dynamic index
 *     blobs: { 'qemu-server.conf': Buffer.from('cores: 2\n') },
 *     key: vectorKey,                                             // encrypt and sign
 *   });
 *   damageChunk(store.path, written.chunks('drive-scsi0.img')[1].digest, 'missing');
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import {
  chunkDigest,
  encodeTestBlob,
  encodeTestDynamicIndex,
  encodeTestFixedIndex,
  encodeTestManifest,
  sha256,
  type TestBlobKind,
  type TestCryptMode,
  type TestManifestFile,
} from './encode-formats.ts';

export * from './encode-formats.ts';

/** Bytes, or bytes with a chunk size of their own. */
type TestArchive = Uint8Array | { readonly data: Uint8Array; readonly chunkSize?: number };

export interface TestSnapshot {
  /** `vm/100`, or with a namespace `ns/a/ns/b/vm/100`. */
  readonly group: string;
  /** Seconds since the epoch. */
  readonly time: number;
  /** Names such as `drive-scsi0.img`; fixed index. */
  readonly images?: Readonly<Record<string, TestArchive>>;
  /** Names such as `root.pxar`, `root.mpxar`, `catalog.pcat1`; dynamic index cut every `chunkSize` bytes. */
  readonly archives?: Readonly<Record<string, TestArchive>>;
  /** Names such as `qemu-server.conf`. */
  readonly blobs?: Readonly<Record<string, Uint8Array>>;
  /** Encrypts and signs, unless `cryptMode` is `sign-only`. */
  readonly key?: Uint8Array;
  readonly cryptMode?: TestCryptMode;
  /** zstd for chunks and blobs; default true. */
  readonly compress?: boolean;
  /** The short last chunk of an image is stored padded with zeros to a whole one: a broken backup. */
  readonly padLastChunk?: boolean;
  /** Default `root@pam`; `null` writes no owner file. */
  readonly owner?: string | null;
  readonly notes?: string;
  readonly verifyState?: 'ok' | 'failed';
  readonly isProtected?: boolean;
  /** `false` leaves the manifest out, as while a backup runs. */
  readonly finished?: boolean;
}

export interface WrittenChunk {
  /** Lower-case hex. */
  readonly digest: string;
  readonly start: number;
  readonly end: number;
}

export interface WrittenSnapshot {
  /** The snapshot directory. */
  readonly directory: string;
  /** Relative to the datastore: `vm/100/2023-11-14T22:13:20Z`. */
  readonly path: string;
  /** Chunks of an image or archive by its short name, in order. */
  chunks(name: string): readonly WrittenChunk[];
}

const imageChunkSize = 4 * 1024 * 1024;
const archiveChunkSize = 64 * 1024;

/** An empty datastore below the system's temporary directory, removed on disposal. */
export function temporaryDatastore(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'pbsfs-store-'));
  mkdirSync(join(path, '.chunks'));
  writeFileSync(join(path, '.lock'), '');
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Where a chunk is stored. */
export function chunkPath(store: string, digest: string): string {
  return join(store, '.chunks', digest.slice(0, 4), digest);
}

/** Stores any bytes under a digest, right or wrong. */
export function writeChunkFile(store: string, digest: string, raw: Uint8Array): void {
  const path = chunkPath(store, digest);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, raw);
}

export type ChunkDamage = 'missing' | 'empty' | 'truncated' | 'bit-flip' | 'wrong-magic';

/** Breaks one stored chunk. */
export function damageChunk(store: string, digest: string, damage: ChunkDamage): void {
  const path = chunkPath(store, digest);
  const raw = readFileSync(path);
  switch (damage) {
    case 'missing':
      rmSync(path);
      break;
    case 'empty':
      truncateSync(path, 0);
      break;
    case 'truncated':
      truncateSync(path, raw.length - 1);
      break;
    case 'bit-flip':
      raw.writeUInt8(raw.readUInt8(raw.length - 1) ^ 1, raw.length - 1);
      writeFileSync(path, raw);
      break;
    case 'wrong-magic':
      raw.fill(0xff, 0, 8);
      writeFileSync(path, raw);
      break;
  }
}

/** Exchanges two stored chunks: each has a right CRC and the wrong digest. */
export function swapChunks(store: string, a: string, b: string): void {
  const [rawA, rawB] = [readFileSync(chunkPath(store, a)), readFileSync(chunkPath(store, b))];
  writeFileSync(chunkPath(store, a), rawB);
  writeFileSync(chunkPath(store, b), rawA);
}

/** The name of a snapshot directory. */
function snapshotName(time: number): string {
  return new Date(time * 1000).toISOString().replace('.000', '');
}

/** Writes one snapshot, its chunks and its group. */
export function writeSnapshot(store: string, snapshot: TestSnapshot): WrittenSnapshot {
  const path = `${snapshot.group}/${snapshotName(snapshot.time)}`;
  const writer = new SnapshotWriter(store, join(store, path), snapshot);
  for (const [name, archive] of Object.entries(snapshot.images ?? {})) writer.image(name, archive);
  for (const [name, archive] of Object.entries(snapshot.archives ?? {})) {
    writer.archive(name, archive);
  }
  for (const [name, data] of Object.entries(snapshot.blobs ?? {})) writer.blob(name, data);
  writer.finish();
  return {
    directory: writer.directory,
    path,
    chunks: (name) => {
      const chunks = writer.chunks.get(name);
      if (chunks === undefined) throw new Error(`no image or archive ${name} was written`);
      return chunks;
    },
  };
}

class SnapshotWriter {
  readonly directory: string;
  readonly chunks: Map<string, readonly WrittenChunk[]> = new Map();
  readonly #store: string;
  readonly #snapshot: TestSnapshot;
  readonly #cryptMode: TestCryptMode;
  readonly #files: TestManifestFile[] = [];

  constructor(store: string, directory: string, snapshot: TestSnapshot) {
    this.#store = store;
    this.directory = directory;
    this.#snapshot = snapshot;
    this.#cryptMode = snapshot.cryptMode ?? (snapshot.key === undefined ? 'none' : 'encrypt');
    mkdirSync(directory, { recursive: true });
    const owner = snapshot.owner === undefined ? 'root@pam' : snapshot.owner;
    if (owner !== null) writeFileSync(join(directory, '../owner'), `${owner}\n`);
    if (snapshot.isProtected === true) writeFileSync(join(directory, '.protected'), '');
  }

  image(name: string, archive: TestArchive): void {
    const { data, chunkSize } = withChunkSize(archive, imageChunkSize);
    const chunks = this.#cut(data, chunkSize, this.#snapshot.padLastChunk === true);
    const digests = chunks.map((chunk) => Buffer.from(chunk.digest, 'hex'));
    const { bytes, csum } = encodeTestFixedIndex(data.length, chunkSize, digests);
    this.chunks.set(name, chunks);
    this.#add(`${name}.fidx`, bytes, data.length, csum);
  }

  archive(name: string, archive: TestArchive): void {
    const { data, chunkSize } = withChunkSize(archive, archiveChunkSize);
    const chunks = this.#cut(data, chunkSize, false);
    const { bytes, csum } = encodeTestDynamicIndex(
      chunks.map(({ end, digest }) => ({ end, digest: Buffer.from(digest, 'hex') })),
    );
    this.chunks.set(name, chunks);
    this.#add(`${name}.didx`, bytes, data.length, csum);
  }

  blob(name: string, data: Uint8Array): void {
    const raw = this.#encode(data);
    this.#add(`${name}.blob`, raw, raw.length, sha256(raw));
  }

  finish(): void {
    const { group, time, key, notes, verifyState, finished } = this.#snapshot;
    if (finished === false) return;
    const [type = '', id = ''] = group.split('/').slice(-2);
    const upid = 'UPID:test:00000001:00000001:00000001:6553F100:verify:store:root@pam:';
    const json = encodeTestManifest({
      type,
      id,
      time,
      files: this.#files,
      key: this.#cryptMode === 'none' ? undefined : key,
      unprotected: {
        ...(notes === undefined ? {} : { notes }),
        ...(verifyState === undefined ? {} : { verify_state: { state: verifyState, upid } }),
      },
    });
    this.#write('index.json.blob', encodeTestBlob(Buffer.from(json), 'zstd'));
  }

  #cut(data: Uint8Array, chunkSize: number, padLast: boolean): readonly WrittenChunk[] {
    const key = this.#cryptMode === 'encrypt' ? this.#snapshot.key : undefined;
    const chunks: WrittenChunk[] = [];
    for (let start = 0; start < data.length; start += chunkSize) {
      const end = Math.min(start + chunkSize, data.length);
      const piece = Buffer.from(data.subarray(start, end));
      const stored = padLast
        ? Buffer.concat([piece, Buffer.alloc(chunkSize - piece.length)])
        : piece;
      const digest = chunkDigest(stored, key).toString('hex');
      writeChunkFile(this.#store, digest, this.#encode(stored));
      chunks.push({ digest, start, end });
    }
    return chunks;
  }

  #encode(data: Uint8Array): Buffer {
    const compress = this.#snapshot.compress !== false;
    const encrypt = this.#cryptMode === 'encrypt';
    let kind: TestBlobKind = compress ? 'zstd' : 'plain';
    if (encrypt) kind = compress ? 'encrypted-zstd' : 'encrypted';
    return encodeTestBlob(data, kind, this.#snapshot.key);
  }

  #add(filename: string, bytes: Buffer, size: number, csum: Buffer): void {
    this.#write(filename, bytes);
    this.#files.push({ filename, cryptMode: this.#cryptMode, size, csum: csum.toString('hex') });
  }

  #write(filename: string, bytes: Buffer): void {
    writeFileSync(join(this.directory, filename), bytes);
  }
}

function withChunkSize(
  archive: TestArchive,
  chunkSize: number,
): { readonly data: Uint8Array; readonly chunkSize: number } {
  return archive instanceof Uint8Array ? { data: archive, chunkSize } : { chunkSize, ...archive };
}
