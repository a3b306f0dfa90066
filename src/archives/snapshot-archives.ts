/**
 * One opened snapshot: its manifest checked, its key picked, its blobs decoded and its indexes compared
 * with the manifest. What is handed out here can be trusted as far as the manifest can.
 *
 * Source of the rules: PBS `pbs-client/src/backup_reader.rs` and `pbs-datastore/src/manifest.rs`.
 */
import { hash } from 'node:crypto';
import { isPbsfsError, PbsfsError, withContext } from '../errors.ts';
import { clientLogName, manifestName, masterKeyBlobName } from '../formats/archive-name.ts';
import { type ChunkIndex, decodeIndex } from '../formats/chunk-index.ts';
import type { CryptConfig } from '../formats/crypt-config.ts';
import { blobKind, decodeBlob, isEncryptedKind, maxBlobSize } from '../formats/data-blob.ts';
import {
  type CryptMode,
  type Manifest,
  type ManifestFile,
  parseManifest,
} from '../formats/manifest.ts';
import { formatSnapshot, type SnapshotId } from '../formats/snapshot-path.ts';
import type { Repository, SnapshotReader } from '../repository/repository.ts';
import type { KeyRing } from './key-ring.ts';
import { pickKey } from './snapshot-key.ts';

/** An index that agrees with the manifest, and how its chunks must be stored. */
export interface OpenedIndex {
  readonly index: ChunkIndex;
  readonly cryptMode: CryptMode;
}

export class SnapshotArchives implements AsyncDisposable {
  readonly reader: SnapshotReader;
  readonly manifest: Manifest;
  /** The manifest as it was read: the server rewrites its file when notes change. */
  readonly #manifestText: Buffer;
  readonly #crypt: CryptConfig | undefined;
  readonly #locked: PbsfsError | undefined;

  private constructor(
    reader: SnapshotReader,
    manifestText: Buffer,
    manifest: Manifest,
    key: { crypt?: CryptConfig; locked?: PbsfsError },
  ) {
    this.reader = reader;
    this.#manifestText = manifestText;
    this.manifest = manifest;
    this.#crypt = key.crypt;
    this.#locked = key.locked;
  }

  /**
   * @throws PbsfsError `not-found`; `corrupt` for a manifest that cannot be decoded or whose signature does
   * not match. A missing or wrong key is no error here: the snapshot opens locked.
   */
  static async open(
    repository: Repository,
    snapshot: SnapshotId,
    keys: KeyRing,
    signal?: AbortSignal,
  ): Promise<SnapshotArchives> {
    return await withContext({ snapshot: formatSnapshot(snapshot) }, async () => {
      const reader = await repository.openSnapshot(snapshot, signal);
      try {
        return await withContext({ archive: manifestName }, async () => {
          const raw = await reader.readFile(manifestName, signal);
          const text = await decodeBlob(raw, { maxLength: maxBlobSize, crc: true });
          const manifest = parseManifest(text);
          const key = await pickKey(reader, manifest, keys, signal);
          return new SnapshotArchives(reader, text, manifest, key);
        });
      } catch (error) {
        await reader[Symbol.asyncDispose]();
        throw error;
      }
    });
  }

  get snapshot(): SnapshotId {
    return this.reader.snapshot;
  }

  /** The manifest's entry, or undefined for files that stand beside it. */
  file(filename: string): ManifestFile | undefined {
    return this.manifest.files.find((file) => file.filename === filename);
  }

  /** The key for data of that mode. @throws PbsfsError `key-missing`, `key-wrong` */
  cryptFor(cryptMode: CryptMode): CryptConfig | undefined {
    if (cryptMode !== 'encrypt') return undefined;
    if (this.#crypt === undefined)
      throw this.#locked ?? new PbsfsError('bug', 'no key and no reason');
    return this.#crypt;
  }

  /** The same as `cryptFor`, without the error: what can be said of a locked archive needs no key. */
  cryptIfKnown(cryptMode: CryptMode): CryptConfig | undefined {
    return cryptMode === 'encrypt' ? this.#crypt : undefined;
  }

  /**
   * The decoded content of a blob, checked against the manifest where it is listed there.
   * @throws PbsfsError `not-found`, `corrupt`, `key-missing`, `key-wrong`
   */
  async readBlob(filename: string, signal?: AbortSignal): Promise<Buffer> {
    if (filename === manifestName) return this.#manifestText;
    return await this.#inArchive(filename, async () => {
      const listed = this.#listed(filename);
      const raw = await this.#readFile(filename, listed, signal);
      if (listed !== undefined) checkStoredBlob(raw, listed);
      const encrypted = isEncryptedKind(blobKind(raw));
      if (listed !== undefined && filename !== masterKeyBlobName) {
        checkCryptMode(encrypted, listed.cryptMode);
      }
      const crypt = encrypted ? this.cryptFor('encrypt') : undefined;
      return await decodeBlob(raw, {
        ...(crypt === undefined ? {} : { crypt }),
        maxLength: maxBlobSize,
        crc: true,
      });
    });
  }

  /**
   * An index, its checksum and size compared with the manifest. Its chunks can be read from then on.
   * @throws PbsfsError `not-found`, `corrupt`
   */
  async openIndex(filename: string, signal?: AbortSignal): Promise<OpenedIndex> {
    return await this.#inArchive(filename, async () => {
      const listed = this.#listed(filename);
      const index = decodeIndex(filename, await this.#readFile(filename, listed, signal));
      if (listed === undefined) throw new PbsfsError('bug', 'an index is never unlisted');
      if (!index.csum.equals(listed.csum)) {
        throw new PbsfsError(
          'corrupt',
          `index has checksum ${index.csum.toString('hex')}, the manifest says ${listed.csum.toString('hex')}`,
        );
      }
      if (index.size !== listed.size) {
        throw new PbsfsError(
          'corrupt',
          `index covers ${index.size} bytes, the manifest says ${listed.size}`,
        );
      }
      return { index, cryptMode: listed.cryptMode };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.reader[Symbol.asyncDispose]();
  }

  #listed(filename: string): ManifestFile | undefined {
    const listed = this.file(filename);
    if (listed === undefined && filename !== clientLogName) {
      throw new PbsfsError('not-found', 'is not in the manifest of its snapshot');
    }
    return listed;
  }

  /** What the manifest promises and the snapshot does not have is damage, not absence. */
  async #readFile(
    filename: string,
    listed: ManifestFile | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Buffer> {
    try {
      return await this.reader.readFile(filename, signal);
    } catch (error) {
      if (listed === undefined || !isPbsfsError(error, 'not-found')) throw error;
      throw new PbsfsError('corrupt', 'is in the manifest, but not in the snapshot', {
        cause: error,
      });
    }
  }

  async #inArchive<T>(filename: string, action: () => Promise<T>): Promise<T> {
    return await withContext(
      { snapshot: formatSnapshot(this.snapshot), archive: filename },
      action,
    );
  }
}

function checkStoredBlob(raw: Buffer, listed: ManifestFile): void {
  if (raw.length !== listed.size) {
    throw new PbsfsError(
      'corrupt',
      `stored blob has ${raw.length} bytes, the manifest says ${listed.size}`,
    );
  }
  const csum = hash('sha256', raw, 'buffer');
  if (!csum.equals(listed.csum)) {
    throw new PbsfsError(
      'corrupt',
      `stored blob has checksum ${csum.toString('hex')}, the manifest says ${listed.csum.toString('hex')}`,
    );
  }
}

function checkCryptMode(encrypted: boolean, cryptMode: CryptMode): void {
  if (encrypted !== (cryptMode === 'encrypt')) {
    throw new PbsfsError(
      'corrupt',
      `stored ${encrypted ? 'encrypted' : 'in plain'}, the manifest says '${cryptMode}'`,
    );
  }
}
