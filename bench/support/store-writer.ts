/** Writes snapshots of one archive into a datastore directory, with the project's own encoders. */
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { encodeBlob } from '../../src/formats/data-blob.ts';
import { createManifest, formatManifest } from '../../src/formats/manifest.ts';
import { formatSnapshot, type SnapshotId } from '../../src/formats/snapshot-path.ts';

/** 2026-11-29T02:00:00Z: when all benchmark snapshots were made. */
export const backupTime = 1_795_917_600;

/** An index as it is stored. */
export interface StoredIndex {
  readonly filename: string;
  readonly bytes: Buffer;
  /** Of what it stands for. */
  readonly size: number;
  readonly csum: Buffer;
}

const manifestFile = 'index.json.blob';

export function hasSnapshot(store: string, snapshot: SnapshotId): boolean {
  // The manifest is written last.
  return existsSync(join(store, formatSnapshot(snapshot), manifestFile));
}

/** Index and manifest; the chunks are there already. */
export function writeSnapshot(store: string, snapshot: SnapshotId, index: StoredIndex): void {
  const { filename, bytes, size, csum } = index;
  const directory = join(store, formatSnapshot(snapshot));
  const manifest = createManifest({
    backupType: snapshot.type,
    backupId: snapshot.id,
    backupTime: snapshot.time,
    files: [{ filename, cryptMode: 'none', size, csum }],
    unprotected: {},
  });
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, filename), bytes);
  writeFileSync(join(directory, '../owner'), 'root@pam\n');
  const json = Buffer.from(formatManifest(manifest));
  writeFileSync(join(directory, manifestFile), encodeBlob(json, { compress: true }));
}

export class ChunkWriter {
  readonly #directory: string;
  readonly #written = new Set<string>();

  constructor(store: string) {
    this.#directory = join(store, '.chunks');
  }

  /** Stores a chunk; gives its digest. */
  write(bytes: Uint8Array): Buffer {
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
