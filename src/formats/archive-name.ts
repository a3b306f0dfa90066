/**
 * Names of archives: as the server stores them (`drive-scsi0.img.fidx`) and as people write them
 * (`drive-scsi0.img`).
 *
 *   .img                          + .fidx   fixed index
 *   .pxar .mpxar .ppxar .pcat1    + .didx   dynamic index
 *   .conf .json .key .log         + .blob   blob
 *
 * Source: PBS `pbs-datastore/src/manifest.rs` (`ArchiveType`), `pbs-client/src/tools` (`BackupArchiveName`).
 */
import { PbsfsError } from '../errors.ts';
import { isSafeId } from './snapshot-path.ts';

export type ArchiveKind = 'fixed' | 'dynamic' | 'blob';

/** The manifest of a snapshot. */
export const manifestName = 'index.json.blob';
/** Log of the client: there or not, never in the manifest. */
export const clientLogName = 'client.log.blob';
/** The encryption key, encrypted for the master key. */
export const masterKeyBlobName = 'rsa-encrypted.key.blob';
/** Listing of the pxar archives of a snapshot that are not split. */
export const catalogName = 'catalog.pcat1.didx';

const kinds: Readonly<Record<string, ArchiveKind>> = {
  '.fidx': 'fixed',
  '.didx': 'dynamic',
  '.blob': 'blob',
};

const serverExtensions: Readonly<Record<string, string>> = {
  '.img': '.fidx',
  '.pxar': '.didx',
  '.mpxar': '.didx',
  '.ppxar': '.didx',
  '.pcat1': '.didx',
  '.conf': '.blob',
  '.json': '.blob',
  '.key': '.blob',
  '.log': '.blob',
};

/** With its dot, or empty. */
function extension(name: string): string {
  const dot = name.lastIndexOf('.');
  return dot < 0 ? '' : name.slice(dot);
}

function kindOf(name: string): ArchiveKind | undefined {
  return kinds[extension(name)];
}

function addedExtension(name: string): string | undefined {
  return serverExtensions[extension(name)];
}

/** A name that the server may store an archive under. */
export function isArchiveName(name: string): boolean {
  return isSafeId(name) && kindOf(name) !== undefined;
}

/** @throws PbsfsError `usage` where `filename` is not a server name. */
export function archiveKind(filename: string): ArchiveKind {
  const kind = kindOf(filename);
  if (kind === undefined) {
    throw new PbsfsError('usage', `'${filename}' ends neither in .fidx nor in .didx nor in .blob`);
  }
  return kind;
}

/**
 * The server's name of what a person calls `name`; a server name stays as it is.
 * @throws PbsfsError `usage`
 */
export function serverFileName(name: string): string {
  if (!isSafeId(name)) throw new PbsfsError('usage', `'${name}' is not a valid archive name`);
  if (kindOf(name) !== undefined) return name;
  const added = addedExtension(name);
  if (added === undefined) {
    throw new PbsfsError('usage', `'${name}' has no known archive extension`, {
      hint: `use one of ${Object.keys(serverExtensions).join(' ')}, or the name on the server`,
    });
  }
  return name + added;
}

/** The short name, `drive-scsi0.img` for `drive-scsi0.img.fidx`, where it leads back to `filename`. */
export function displayName(filename: string): string {
  const name = filename.slice(0, -extension(filename).length);
  const added = addedExtension(name);
  return added !== undefined && name + added === filename ? name : filename;
}

/** An archive as it is shown: one file, or two where its metadata and its payload are stored apart. */
export type Archive =
  | { readonly name: string; readonly split: false; readonly filename: string }
  | {
      readonly name: string;
      readonly split: true;
      readonly metadata: string;
      readonly payload: string;
    };

const splitEnd = /\.[mp]pxar\.didx$/;

/** The archives that make up a snapshot, in the order of its files, each with a name of its own. */
export function listArchives(filenames: Iterable<string>): readonly Archive[] {
  const listed = new Set(filenames);
  const archives: Archive[] = [];
  for (const filename of listed) {
    const base = filename.replace(splitEnd, '');
    const [metadata, payload] = [`${base}.mpxar.didx`, `${base}.ppxar.didx`];
    const isPaired = base !== filename && listed.has(metadata) && listed.has(payload);
    if (!isPaired) {
      archives.push({ name: displayName(filename), split: false, filename });
    } else if (filename === metadata) {
      const isTaken = listed.has(`${base}.pxar.didx`);
      archives.push({
        name: `${base}.${isTaken ? 'mpxar' : 'pxar'}`,
        split: true,
        metadata,
        payload,
      });
    }
  }
  return archives;
}

/**
 * An archive by any of its names: short, the server's, or that of one half of a split archive. Undefined
 * where there is none.
 */
export function findArchive(name: string, filenames: Iterable<string>): Archive | undefined {
  const filename = kindOf(name) === undefined ? `${name}${addedExtension(name) ?? ''}` : name;
  return listArchives(filenames).find((archive) =>
    archive.split
      ? [archive.metadata, archive.payload, `${archive.name}.didx`].includes(filename)
      : archive.filename === filename,
  );
}
