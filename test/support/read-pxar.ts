/** Reads whole archives for comparison, both ways: by goodbye tables and by a pass. */
import type { PxarArchive } from '../../src/archives/pxar/pxar-archive.ts';
import type { PxarDirectory, PxarEntry, PxarHardLink } from '../../src/formats/pxar/entry.ts';
import { readBytes } from '../../src/read-at.ts';

/** An entry with its path in latin1; the root's is empty. */
export interface FoundEntry {
  readonly path: string;
  readonly entry: PxarEntry;
}

export function joinPath(parent: string, name: Buffer): string {
  return parent === '' ? name.toString('latin1') : `${parent}/${name.toString('latin1')}`;
}

/** Everything by listings, parents first, each in the order of the archive. Throws where there is damage. */
export async function listAll(archive: PxarArchive): Promise<FoundEntry[]> {
  const found: FoundEntry[] = [{ path: '', entry: archive.root }];
  const visit = async (directory: PxarDirectory, path: string): Promise<void> => {
    const { members, damaged } = await archive.readDirectory(directory);
    if (damaged[0] !== undefined) throw damaged[0].error;
    for (const entry of members) {
      const childPath = joinPath(path, entry.name);
      found.push({ path: childPath, entry });
      if (entry.kind === 'directory') await visit(entry, childPath);
    }
  };
  await visit(archive.root, '');
  return found;
}

/** Everything by one pass, in the same order. Throws where there is damage. */
export async function walkAll(archive: PxarArchive): Promise<FoundEntry[]> {
  const found: FoundEntry[] = [];
  const open: string[] = [];
  for await (const step of archive.walk()) {
    if (step.step === 'damaged') throw step.damage.error;
    if (step.step === 'leave') {
      open.pop();
      continue;
    }
    const entry = step.step === 'enter' ? step.directory : step.entry;
    const path = joinPath(open.at(-1) ?? '', entry.name);
    found.push({ path, entry });
    if (step.step === 'enter') open.push(path);
  }
  return found;
}

/** An entry as plain values, hard links as their file, with content and attributes. */
export async function describeEntry(
  archive: PxarArchive,
  found: PxarEntry,
): Promise<Record<string, unknown>> {
  const entry: Exclude<PxarEntry, PxarHardLink> =
    found.kind === 'hardlink' ? await archive.resolveHardLink(found) : found;
  const { kind, mode, flags, uid, gid, mtime } = entry;
  const { xattrs, quotaProjectId } = await archive.readAttributes(entry);
  const common = {
    kind,
    mode,
    flags,
    uid,
    gid,
    mtime,
    quotaProjectId,
    xattrs: xattrs.map(({ name, value }) => `${name} ${value.toString('hex')}`).sort(),
  };
  switch (entry.kind) {
    case 'file': {
      const content = await archive.openContent(entry);
      return { ...common, size: entry.size, content: await readBytes(content, 0, content.size) };
    }
    case 'symlink':
      return { ...common, target: await archive.readSymlink(entry) };
    case 'block':
    case 'char':
      return { ...common, rdev: entry.rdev };
    default:
      return common;
  }
}
