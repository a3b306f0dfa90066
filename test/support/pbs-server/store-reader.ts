/**
 * What the test server knows of a datastore directory: read anew for each request and independently of
 * the code under test.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';

export interface StoreFile {
  readonly filename: string;
  readonly 'crypt-mode'?: string;
  readonly size?: number;
}

export interface StoreSnapshot {
  readonly 'backup-type': string;
  readonly 'backup-id': string;
  readonly 'backup-time': number;
  readonly comment?: string;
  readonly verification?: unknown;
  readonly fingerprint?: string;
  readonly files: readonly StoreFile[];
  readonly size?: number;
  readonly owner: string;
  readonly protected: boolean;
}

export interface StoreGroup {
  readonly type: string;
  readonly id: string;
  readonly owner: string;
}

interface StoredManifest {
  readonly files: readonly {
    readonly filename: string;
    readonly 'crypt-mode': string;
    readonly size: number;
  }[];
  readonly signature?: string | null;
  readonly unprotected?: {
    readonly notes?: string;
    readonly verify_state?: unknown;
    readonly 'key-fingerprint'?: string;
  };
}

const types = ['ct', 'host', 'vm'];
const timePattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const plainMagic = Buffer.from('42ab3807be8370a1', 'hex');

function subdirectories(path: string): string[] {
  if (!existsSync(path)) return [];
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
}

function textIfThere(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}

export function formatTime(time: number): string {
  return new Date(time * 1000).toISOString().replace('.000', '');
}

export class StoreReader {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  namespacePath(ns: string): string {
    const parts = ns === '' ? [] : ns.split('/');
    return join(this.directory, ...parts.flatMap((part) => ['ns', part]));
  }

  hasNamespace(ns: string): boolean {
    return existsSync(this.namespacePath(ns));
  }

  /** The start itself and everything below, in pre-order. */
  namespaces(parent: string, maxDepth = 7): string[] {
    const below =
      maxDepth === 0
        ? []
        : subdirectories(join(this.namespacePath(parent), 'ns')).flatMap((name) =>
            this.namespaces(parent === '' ? name : `${parent}/${name}`, maxDepth - 1),
          );
    return [parent, ...below];
  }

  groups(ns: string): StoreGroup[] {
    return types.flatMap((type) =>
      subdirectories(join(this.namespacePath(ns), type)).flatMap((id) => {
        const owner = textIfThere(join(this.namespacePath(ns), type, id, 'owner'));
        return owner === undefined ? [] : [{ type, id, owner: owner.trim() }];
      }),
    );
  }

  owner(ns: string, type: string, id: string): string | undefined {
    return textIfThere(join(this.namespacePath(ns), type, id, 'owner'))?.trim();
  }

  groupNotes(ns: string, type: string, id: string): string | undefined {
    return textIfThere(join(this.namespacePath(ns), type, id, 'notes'));
  }

  times(ns: string, type: string, id: string): number[] {
    return subdirectories(join(this.namespacePath(ns), type, id))
      .filter((name) => timePattern.test(name))
      .map((name) => Date.parse(name) / 1000);
  }

  snapshotPath(ns: string, type: string, id: string, time: number): string {
    return join(this.namespacePath(ns), type, id, formatTime(time));
  }

  storedFiles(ns: string, type: string, id: string, time: number): string[] {
    return readdirSync(this.snapshotPath(ns, type, id, time)).filter((name) =>
      /\.(blob|fidx|didx)$/.test(name),
    );
  }

  manifest(ns: string, type: string, id: string, time: number): StoredManifest | undefined {
    const path = join(this.snapshotPath(ns, type, id, time), 'index.json.blob');
    if (!existsSync(path)) return undefined;
    const raw = readFileSync(path);
    const payload = raw.subarray(12);
    try {
      return JSON.parse(
        (raw.subarray(0, 8).equals(plainMagic) ? payload : zstdDecompressSync(payload)).toString(),
      ) as StoredManifest;
    } catch {
      return undefined;
    }
  }

  snapshot(ns: string, group: StoreGroup, time: number): StoreSnapshot {
    const at = [ns, group.type, group.id, time] as const;
    const manifest = this.manifest(...at);
    const stored = this.storedFiles(...at);
    const base = {
      'backup-type': group.type,
      'backup-id': group.id,
      'backup-time': time,
      owner: group.owner,
      protected: existsSync(join(this.snapshotPath(...at), '.protected')),
    };
    if (manifest === undefined) {
      return { ...base, files: stored.map((filename) => ({ filename })) };
    }
    const unprotected = manifest.unprotected ?? {};
    const { notes } = unprotected;
    const files = this.#files(at, manifest, stored);
    return {
      ...base,
      ...(notes === undefined ? {} : { comment: notes.split('\n')[0] ?? '' }),
      ...(unprotected.verify_state === undefined ? {} : { verification: unprotected.verify_state }),
      ...(unprotected['key-fingerprint'] === undefined
        ? {}
        : { fingerprint: unprotected['key-fingerprint'] }),
      files,
      size: files.reduce((sum, file) => sum + (file.size ?? 0), 0),
    };
  }

  #files(
    at: readonly [string, string, string, number],
    manifest: StoredManifest,
    stored: readonly string[],
  ): StoreFile[] {
    const listed: StoreFile[] = manifest.files.map((file) => ({
      filename: file.filename,
      'crypt-mode': file['crypt-mode'],
      size: file.size,
    }));
    const signed = typeof manifest.signature === 'string';
    listed.push({
      filename: 'index.json.blob',
      'crypt-mode': signed ? 'sign-only' : 'none',
      size: statSync(join(this.snapshotPath(...at), 'index.json.blob')).size,
    });
    const known = new Set(listed.map((file) => file.filename));
    return [
      ...listed,
      ...stored.filter((name) => !known.has(name)).map((filename) => ({ filename })),
    ];
  }

  chunkPath(digest: string): string {
    return join(this.directory, '.chunks', digest.slice(0, 4), digest);
  }
}
