/**
 * A local datastore with one VM whose disk is the image of `image-content.ts`, written with the project's own
 * encoders.
 */
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { encodeBlob } from '../../src/formats/data-blob.ts';
import { encodeFixedIndex } from '../../src/formats/fixed-index.ts';
import { createManifest, formatManifest } from '../../src/formats/manifest.ts';
import { formatSnapshot, type SnapshotId } from '../../src/formats/snapshot-path.ts';
import { chunkContent, chunkKind, chunkSize } from './image-content.ts';

export interface Dataset {
  /** The datastore directory. */
  readonly store: string;
  readonly indexFile: string;
  readonly chunkDirectory: string;
  /** Path of the image in the tree. */
  readonly imagePath: string;
  readonly size: number;
  /** Bytes of the image that are not in chunks of zeros. */
  readonly dataSize: number;
}

/** How an image is filled. */
export interface ImagePlan {
  /** Backup id of the VM. */
  readonly id: string;
  readonly size: number;
  /** Chunks from this one on are zeros. */
  readonly usedChunks?: number;
}

/** 2026-11-29T02:00:00Z */
const backupTime = 1_795_917_600;
const imageName = 'drive-scsi0.img';

/** The image of a plan, written to `store` unless it is there already. */
export function makeDataset(store: string, plan: ImagePlan): Dataset {
  const snapshot: SnapshotId = { namespace: [], type: 'vm', id: plan.id, time: backupTime };
  const path = formatSnapshot(snapshot);
  const directory = join(store, path);
  const indexFile = join(directory, `${imageName}.fidx`);
  const chunkCount = Math.ceil(plan.size / chunkSize);
  const lengths = Array.from({ length: chunkCount }, (_, i) =>
    Math.min(chunkSize, plan.size - i * chunkSize),
  );
  const isZero = (i: number) => i >= (plan.usedChunks ?? chunkCount) || chunkKind(i) === 'zeros';
  // The manifest is written last.
  if (!existsSync(join(directory, 'index.json.blob'))) {
    mkdirSync(directory, { recursive: true });
    const chunks = new ChunkWriter(store);
    const digests = lengths.map((length, i) =>
      chunks.write(isZero(i) ? Buffer.alloc(length) : chunkContent(i, length)),
    );
    writeIndex(directory, snapshot, plan.size, digests);
  }
  return {
    store,
    indexFile,
    chunkDirectory: join(store, '.chunks'),
    imagePath: `${path}/${imageName}`,
    size: plan.size,
    dataSize: lengths.reduce((sum, length, i) => (isZero(i) ? sum : sum + length), 0),
  };
}

class ChunkWriter {
  readonly #directory: string;
  readonly #written = new Set<string>();

  constructor(store: string) {
    this.#directory = join(store, '.chunks');
  }

  write(bytes: Buffer): Buffer {
    const digest = hash('sha256', bytes, 'buffer');
    const hex = digest.toString('hex');
    if (!this.#written.has(hex)) {
      this.#written.add(hex);
      const directory = join(this.#directory, hex.slice(0, 4));
      mkdirSync(directory, { recursive: true });
      writeFileSync(join(directory, hex), encodeBlob(bytes, { compress: true }));
    }
    return digest;
  }
}

function writeIndex(
  directory: string,
  snapshot: SnapshotId,
  size: number,
  digests: readonly Buffer[],
): void {
  const identity = { uuid: Buffer.alloc(16), ctime: snapshot.time };
  const index = encodeFixedIndex({ ...identity, size, chunkSize, digests });
  const csum = hash('sha256', Buffer.concat(digests), 'buffer');
  const filename = `${imageName}.fidx`;
  const manifest = createManifest({
    backupType: snapshot.type,
    backupId: snapshot.id,
    backupTime: snapshot.time,
    files: [{ filename, cryptMode: 'none', size, csum }],
    unprotected: {},
  });
  writeFileSync(join(directory, filename), index);
  writeFileSync(join(directory, '../owner'), 'root@pam\n');
  const json = Buffer.from(formatManifest(manifest));
  writeFileSync(join(directory, 'index.json.blob'), encodeBlob(json, { compress: true }));
}

/** Digests of the chunks that are not zeros, in order: what a reader of the image has to fetch. */
export function dataDigests(dataset: Dataset): readonly string[] {
  const index = readFileSync(dataset.indexFile);
  const zero = hash('sha256', Buffer.alloc(chunkSize));
  const digests: string[] = [];
  for (let at = 4096; at < index.length; at += 32) {
    const digest = index.toString('hex', at, at + 32);
    if (digest !== zero) digests.push(digest);
  }
  return digests;
}
