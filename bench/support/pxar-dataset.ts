/**
 * pxar archives in a local datastore. A backup client cuts them where their content says so, into 4 MiB on
 * average; here they are cut every 4 MiB, or where the caller asks for it.
 */
import { decodeDynamicIndex, encodeDynamicIndex } from '../../src/formats/dynamic-index.ts';
import { type EncodableMetadata, PxarEncoder } from '../../src/formats/pxar/encode.ts';
import { formatSnapshot, type SnapshotId } from '../../src/formats/snapshot-path.ts';
import { chunkContent, chunkSize } from './image-content.ts';
import { backupTime, ChunkWriter, hasSnapshot, writeSnapshot } from './store-writer.ts';

export interface TreeDataset {
  readonly store: string;
  /** Path of the archive in the tree that a mount shows. */
  readonly archivePath: string;
  readonly files: number;
  /** Files and directories, the root among them. */
  readonly entries: number;
  readonly contentBytes: number;
  /** A directory of ordinary size, in the middle of the others. */
  readonly ordinary: ListedDirectory;
  /** A directory with half as many files as the tree has. */
  readonly wide: ListedDirectory;
}

interface ListedDirectory {
  /** Below the archive. */
  readonly path: string;
  readonly files: number;
  /** Chunks that any byte of it lies in. */
  readonly chunks: number;
}

const archiveName = 'root.pxar';
const filesPerDirectory = 100;
const directoriesPerDirectory = 100;
/** File sizes are spread evenly below this. */
const maxFileSize = 4096;

const metadata = { flags: 0, uid: 1000, gid: 1000, mtime: { seconds: 1_700_000_000, nanos: 1 } };
const directoryMetadata: EncodableMetadata = { ...metadata, mode: 0o40755, xattrs: [] };
const fileMetadata: EncodableMetadata = { ...metadata, mode: 0o100644, xattrs: [] };

/**
 * `tree/NN/NN/` with 100 files in each directory, `treeFiles` in all, and beside it `wide/` with half as many;
 * written unless it is there already.
 */
export function makeTree(store: string, treeFiles: number): TreeDataset {
  const snapshot = snapshotOf(`tree-${treeFiles}`);
  const isThere = hasSnapshot(store, snapshot);
  const tree = new TreeWriter(new ArchiveWriter(isThere ? undefined : new ChunkWriter(store)));
  const { archive } = tree;
  const inner = Math.ceil(treeFiles / filesPerDirectory);
  const middle = Math.floor(inner / 2);
  tree.start();
  tree.directory('tree', () => {
    for (let first = 0; first < inner; first += directoriesPerDirectory) {
      tree.directory(nameOf(first / directoriesPerDirectory), () => {
        for (let i = first; i < Math.min(first + directoriesPerDirectory, inner); i++) {
          const chunks = tree.directory(nameOf(i), () => tree.addFiles(filesPerDirectory));
          if (i === middle) tree.ordinaryChunks = chunks;
        }
      });
    }
  });
  const wideFiles = Math.floor(treeFiles / 2);
  const wideChunks = tree.directory('wide', () => tree.addFiles(wideFiles));
  tree.end();
  if (!isThere) archive.finish(store, snapshot);
  const outer = Math.floor(middle / directoriesPerDirectory);
  return {
    store,
    archivePath: `${formatSnapshot(snapshot)}/${archiveName}`,
    files: tree.files,
    entries: tree.files + tree.directories,
    contentBytes: tree.contentBytes,
    ordinary: {
      path: `tree/${nameOf(outer)}/${nameOf(middle)}`,
      files: filesPerDirectory,
      chunks: tree.ordinaryChunks,
    },
    wide: { path: 'wide', files: wideFiles, chunks: wideChunks },
  };
}

/** One file, `image`, with the first `chunks` chunks of the benchmark image, in the same chunks as there. */
export function makeBigFile(store: string, chunks: number): { readonly filePath: string } {
  const snapshot = snapshotOf(`big-${chunks}`);
  if (!hasSnapshot(store, snapshot)) {
    const archive = new ArchiveWriter(new ChunkWriter(store));
    const encoder = new PxarEncoder();
    const size = chunks * chunkSize;
    archive.write(encoder.startRoot(directoryMetadata));
    archive.write(encoder.startFile(Buffer.from('image'), fileMetadata, size).bytes);
    archive.cut();
    for (let i = 0; i < chunks; i++) archive.write(chunkContent(i, chunkSize));
    archive.write(encoder.endDirectory());
    archive.finish(store, snapshot);
  }
  return { filePath: `${formatSnapshot(snapshot)}/${archiveName}/image` };
}

function snapshotOf(id: string): SnapshotId {
  return { namespace: [], type: 'host', id, time: backupTime };
}

function nameOf(i: number): string {
  return String(i).padStart(6, '0');
}

/** Adds to an archive and counts. */
class TreeWriter {
  readonly archive: ArchiveWriter;
  readonly #encoder = new PxarEncoder();
  readonly #text = Buffer.from(chunkContent(0, chunkSize));
  files = 0;
  directories = 0;
  contentBytes = 0;
  ordinaryChunks = 0;

  constructor(archive: ArchiveWriter) {
    this.archive = archive;
  }

  start(): void {
    this.directories++;
    this.archive.write(this.#encoder.startRoot(directoryMetadata));
  }

  end(): void {
    this.archive.write(this.#encoder.endDirectory());
  }

  /** Gives the number of chunks that it lies in. */
  directory(name: string, addMembers: () => void): number {
    const start = this.archive.position;
    this.directories++;
    this.archive.write(this.#encoder.startDirectory(Buffer.from(name), directoryMetadata));
    addMembers();
    this.archive.write(this.#encoder.endDirectory());
    const last = Math.floor((this.archive.position - 1) / chunkSize);
    return last - Math.floor(start / chunkSize) + 1;
  }

  addFiles(count: number): void {
    for (let i = 0; i < count; i++) {
      // Multiplied by a prime, so that neighbours differ.
      const size = (this.files * 2_654_435_761) % maxFileSize;
      const from = (this.files * 4099) % (chunkSize - maxFileSize);
      const name = Buffer.from(`file-${nameOf(this.files)}.txt`);
      this.archive.write(this.#encoder.startFile(name, fileMetadata, size).bytes);
      this.archive.write(this.#text.subarray(from, from + size));
      this.files++;
      this.contentBytes += size;
    }
  }
}

/** Cuts a stream into chunks. Without a writer it only counts. */
class ArchiveWriter {
  position = 0;
  readonly #chunks: { readonly end: number; readonly digest: Buffer }[] = [];
  readonly #writer: ChunkWriter | undefined;
  readonly #buffer = Buffer.alloc(chunkSize);
  #filled = 0;

  constructor(writer: ChunkWriter | undefined) {
    this.#writer = writer;
  }

  write(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      const part = bytes.subarray(at, at + chunkSize - this.#filled);
      this.#buffer.set(part, this.#filled);
      this.#filled += part.length;
      this.position += part.length;
      at += part.length;
      if (this.#filled === chunkSize) this.cut();
    }
  }

  /** Ends a chunk here. */
  cut(): void {
    if (this.#filled === 0) return;
    const digest = this.#writer?.write(this.#buffer.subarray(0, this.#filled));
    if (digest !== undefined) this.#chunks.push({ end: this.position, digest });
    this.#filled = 0;
  }

  finish(store: string, snapshot: SnapshotId): void {
    this.cut();
    const identity = { uuid: Buffer.alloc(16), ctime: snapshot.time };
    const bytes = encodeDynamicIndex({ ...identity, chunks: this.#chunks });
    const { csum } = decodeDynamicIndex(bytes);
    writeSnapshot(store, snapshot, {
      filename: `${archiveName}.didx`,
      bytes,
      size: this.position,
      csum,
    });
  }
}
