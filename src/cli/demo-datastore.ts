/**
 * A small datastore for `pbsfs demo`, made of real backups by the same encoders that a backup uses:
 *
 *   vm/100   two snapshots a day apart: a disk with text, random bytes, zeros, a repeated chunk and a short last
 *            one, a config, a log; the second one changes a chunk
 *   vm/200   one encrypted snapshot
 *
 * The bytes are the same each time, only the times differ.
 */
import { createCipheriv, createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { manifestName } from '../formats/archive-name.ts';
import { CryptConfig, keySize, plainDigest } from '../formats/crypt-config.ts';
import { encodeBlob } from '../formats/data-blob.ts';
import { decodeFixedIndex, encodeFixedIndex } from '../formats/fixed-index.ts';
import { createKeyFile, formatKeyFile } from '../formats/key-file.ts';
import {
  createManifest,
  formatManifest,
  type ManifestFile,
  signManifest,
} from '../formats/manifest.ts';
import { type BackupType, formatSnapshot, type SnapshotId } from '../formats/snapshot-path.ts';

/** What PBS cuts images into. */
const chunkSize = 4 * 1024 * 1024;
const daySeconds = 86_400;

export interface DemoDatastore {
  readonly path: string;
  /** Opens the encrypted snapshot. */
  readonly keyFile: string;
}

/** Writes `datastore/` and `encryption-key.json` into an empty directory. */
export async function writeDemoDatastore(directory: string): Promise<DemoDatastore> {
  const path = join(directory, 'datastore');
  const keyFile = join(directory, 'encryption-key.json');
  const crypt = new CryptConfig(randomBytes(keySize));
  const keyText = formatKeyFile(await createKeyFile(crypt, { kdf: 'none' }));
  await mkdir(join(path, '.chunks'), { recursive: true });
  await writeFile(keyFile, keyText, { mode: 0o600 });

  const now = Math.floor(Date.now() / 1000);
  const disk = createDisk();
  const first = new SnapshotWriter(path, { type: 'vm', id: '100', time: now - daySeconds });
  await first.addImage('drive-scsi0.img', disk);
  await first.addBlob('qemu-server.conf', virtualMachineConfig(100, disk.length));
  await first.addBlob(
    'client.log',
    'INFO: starting backup of VM 100\nINFO: backup finished\n',
    true,
  );
  await first.finish('first backup, before the upgrade');

  // One changed chunk: the second backup stores only that.
  const changed = Buffer.from(disk);
  changed.write('This line is new in the second backup.\n', chunkSize / 2);
  const second = new SnapshotWriter(path, { type: 'vm', id: '100', time: now });
  await second.addImage('drive-scsi0.img', changed);
  await second.addBlob('qemu-server.conf', virtualMachineConfig(100, disk.length));
  await second.finish('after the upgrade');

  const secretDisk = textChunk('the encrypted disk').subarray(0, chunkSize / 2 + 512);
  const encrypted = new SnapshotWriter(path, { type: 'vm', id: '200', time: now }, crypt);
  await encrypted.addImage('drive-scsi0.img', secretDisk);
  await encrypted.addBlob('qemu-server.conf', virtualMachineConfig(200, secretDisk.length));
  await encrypted.finish('encrypted');
  return { path, keyFile };
}

/** 20 MiB + 1 KiB: text, random bytes, zeros, the text again, half random and half zeros, a short end. */
function createDisk(): Buffer {
  const text = textChunk('the disk of VM 100');
  const random = pseudoRandom(chunkSize);
  const zeros = Buffer.alloc(chunkSize);
  const mixed = Buffer.concat([random.subarray(0, chunkSize / 2), Buffer.alloc(chunkSize / 2)]);
  return Buffer.concat([text, random, zeros, text, mixed, text.subarray(0, 1024)]);
}

function textChunk(what: string): Buffer {
  const chunk = Buffer.alloc(chunkSize);
  for (let at = 0, line = 1; at < chunkSize; line++) {
    at += chunk.write(`This is line ${line} of ${what}.\n`, at);
  }
  return chunk;
}

/** The same bytes each time, and none that compress. */
function pseudoRandom(length: number): Buffer {
  return createCipheriv('aes-256-ctr', Buffer.alloc(32), Buffer.alloc(16)).update(
    Buffer.alloc(length),
  );
}

function virtualMachineConfig(id: number, diskBytes: number): string {
  return `name: demo-${id}\ncores: 2\nmemory: 2048\nscsi0: local:vm-${id}-disk-0,size=${diskBytes}\n`;
}

class SnapshotWriter {
  readonly #datastore: string;
  readonly #snapshot: SnapshotId;
  readonly #directory: string;
  readonly #crypt: CryptConfig | undefined;
  readonly #files: ManifestFile[] = [];

  constructor(
    datastore: string,
    { type, id, time }: { type: BackupType; id: string; time: number },
    crypt?: CryptConfig,
  ) {
    this.#datastore = datastore;
    this.#snapshot = { namespace: [], type, id, time };
    this.#directory = join(datastore, formatSnapshot(this.#snapshot));
    this.#crypt = crypt;
  }

  async addImage(name: string, data: Buffer): Promise<void> {
    const digests: Buffer[] = [];
    for (let at = 0; at < data.length; at += chunkSize) {
      digests.push(await this.#writeChunk(data.subarray(at, at + chunkSize)));
    }
    const uuid = createHash('sha256').update(name).digest().subarray(0, 16);
    const ctime = this.#snapshot.time;
    const raw = encodeFixedIndex({ uuid, ctime, size: data.length, chunkSize, digests });
    await this.#writeFile(`${name}.fidx`, raw);
    this.#list(`${name}.fidx`, data.length, decodeFixedIndex(raw).csum);
  }

  /** @param beside not listed in the manifest, as PBS does with the client's log. */
  async addBlob(name: string, text: string, beside = false): Promise<void> {
    const raw = encodeBlob(Buffer.from(text), { compress: true, crypt: this.#crypt });
    await this.#writeFile(`${name}.blob`, raw);
    if (!beside) {
      this.#list(`${name}.blob`, raw.length, createHash('sha256').update(raw).digest());
    }
  }

  async finish(notes: string): Promise<void> {
    await writeFile(join(this.#directory, '../owner'), 'root@pam\n');
    const plain = createManifest({
      backupType: this.#snapshot.type,
      backupId: this.#snapshot.id,
      backupTime: this.#snapshot.time,
      files: this.#files,
      unprotected: { notes },
    });
    const manifest = this.#crypt === undefined ? plain : signManifest(plain, this.#crypt);
    const raw = encodeBlob(Buffer.from(formatManifest(manifest)), { compress: true });
    await this.#writeFile(manifestName, raw);
  }

  async #writeChunk(data: Buffer): Promise<Buffer> {
    const crypt = this.#crypt;
    const digest = crypt === undefined ? await plainDigest(data) : crypt.digestSync(data);
    const hex = digest.toString('hex');
    const path = join(this.#datastore, '.chunks', hex.slice(0, 4), hex);
    if (!existsSync(path)) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, encodeBlob(data, { compress: true, crypt }));
    }
    return digest;
  }

  async #writeFile(filename: string, raw: Buffer): Promise<void> {
    await mkdir(this.#directory, { recursive: true });
    await writeFile(join(this.#directory, filename), raw);
  }

  #list(filename: string, size: number, csum: Buffer): void {
    const cryptMode = this.#crypt === undefined ? 'none' : 'encrypt';
    this.#files.push({ filename, cryptMode, size, csum });
  }
}
