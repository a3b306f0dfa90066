/**
 * A local datastore with one VM whose disk is the image of `image-content.ts`.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeFixedIndex, encodeFixedIndex } from '../../src/formats/fixed-index.ts';
import { formatSnapshot, type SnapshotId } from '../../src/formats/snapshot-path.ts';
import { chunkContent, chunkKind, chunkSize } from './image-content.ts';
import { backupTime, ChunkWriter, hasSnapshot, writeSnapshot } from './store-writer.ts';

export interface Dataset {
  /** Backup id of the VM. */
  readonly id: string;
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
  /** Start of the VM's backup id. */
  readonly id: string;
  readonly size: number;
  /** Chunks from this one on are zeros. */
  readonly usedChunks?: number;
}

const indexHeaderSize = 4096;
const digestSize = 32;
/** What the index says of it, with `.fidx` behind. */
export const imageName = 'drive-scsi0.img';

export function snapshotOf(id: string): SnapshotId {
  return { namespace: [], type: 'vm', id, time: backupTime };
}

/** The image of a plan, written to `store` unless it is there already. */
export function makeDataset(store: string, plan: ImagePlan): Dataset {
  // Images of other runs may lie there too.
  const id = `${plan.id}-${plan.size}`;
  const snapshot = snapshotOf(id);
  const path = formatSnapshot(snapshot);
  const chunkCount = Math.ceil(plan.size / chunkSize);
  const lengths = Array.from({ length: chunkCount }, (_, i) =>
    Math.min(chunkSize, plan.size - i * chunkSize),
  );
  const isZero = (i: number) => i >= (plan.usedChunks ?? chunkCount) || chunkKind(i) === 'zeros';
  if (!hasSnapshot(store, snapshot)) {
    const chunks = new ChunkWriter(store);
    const zero = chunks.write(Buffer.alloc(chunkSize));
    const digests = lengths.map((length, i) => {
      if (!isZero(i)) return chunks.write(chunkContent(i, length));
      return length === chunkSize ? zero : chunks.write(Buffer.alloc(length));
    });
    writeImageIndex(store, snapshot, plan.size, digests);
  }
  return {
    id,
    store,
    indexFile: join(store, path, `${imageName}.fidx`),
    chunkDirectory: join(store, '.chunks'),
    imagePath: `${path}/${imageName}`,
    size: plan.size,
    dataSize: lengths.reduce((sum, length, i) => (isZero(i) ? sum : sum + length), 0),
  };
}

/** A snapshot with one image whose chunks have these digests. */
export function writeImageIndex(
  store: string,
  snapshot: SnapshotId,
  size: number,
  digests: readonly Buffer[],
): void {
  const identity = { uuid: Buffer.alloc(16), ctime: snapshot.time };
  const bytes = encodeFixedIndex({ ...identity, size, chunkSize, digests });
  const { csum } = decodeFixedIndex(bytes);
  writeSnapshot(store, snapshot, { filename: `${imageName}.fidx`, bytes, size, csum });
}

export interface DataChunk {
  readonly position: number;
  readonly digest: string;
}

/** The chunks that are not zeros, in order: what a reader of the image has to fetch. */
export function dataChunks(dataset: Dataset): readonly DataChunk[] {
  const index = readFileSync(dataset.indexFile);
  const zero = hash('sha256', Buffer.alloc(chunkSize));
  const chunks: DataChunk[] = [];
  for (let i = 0; indexHeaderSize + i * digestSize < index.length; i++) {
    const at = indexHeaderSize + i * digestSize;
    const digest = index.toString('hex', at, at + digestSize);
    if (digest !== zero) chunks.push({ position: i, digest });
  }
  return chunks;
}

export function dataDigests(dataset: Dataset): readonly string[] {
  return dataChunks(dataset).map(({ digest }) => digest);
}
