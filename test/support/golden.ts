/** Where the golden data lies: written by the real client and server, read-only. See its README. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const goldenDirectory =
  process.env['PBSFS_GOLDEN'] ?? fileURLToPath(new URL('../../../shared/golden', import.meta.url));

export const goldenStore = `${goldenDirectory}/store1`;

export function goldenPath(path: string): string {
  return `${goldenDirectory}/${path}`;
}

export function readGolden(path: string): Buffer {
  return readFileSync(goldenPath(path));
}

/** Passphrase of the protected golden keys. */
export const goldenPassphrase = 'fixture-passphrase';

export interface ExpectedArchive {
  readonly raw_size: number;
  readonly raw_sha256: string;
  readonly kind: 'fixed' | 'dynamic' | 'blob';
  readonly magic: string;
  readonly index_csum?: string;
  readonly uuid?: string;
  readonly ctime?: number;
  readonly chunk_size?: number;
  /** Plain size of the archive behind an index. */
  readonly size?: number;
  /** SHA-256 of the whole decoded archive as the real client restored it. */
  readonly sha256?: string;
  readonly chunks?: readonly {
    readonly digest: string;
    /** Dynamic indexes: the range. Fixed ones have `len` only. */
    readonly start?: number;
    readonly end?: number;
    readonly len?: number;
    readonly plain_sha256?: string;
    readonly zero?: boolean;
  }[];
  readonly crc?: number;
  readonly decoded_sha256?: string;
  readonly decoded_size?: number;
}

export interface ExpectedSnapshot {
  readonly ns: string;
  readonly group: string;
  readonly time_iso: string;
  /** Directory below the datastore. */
  readonly dir: string;
  /** Name of the key file, or null. */
  readonly key: string | null;
  readonly archives: Readonly<Record<string, ExpectedArchive>>;
}

/** `expected/snapshots.json`. */
export function expectedSnapshots(): readonly ExpectedSnapshot[] {
  return JSON.parse(readGolden('expected/snapshots.json').toString()) as ExpectedSnapshot[];
}
