/**
 * The two files of a group. Both only inform, so what is missing or unreadable is left out.
 *
 *   owner   auth id, one line
 *   notes   free text
 */
import { readWholeFile } from './read-only-files.ts';

/** Far above what PBS's interface lets a user enter. */
const maxLength = 1024 * 1024;

async function readText(path: string): Promise<string | undefined> {
  try {
    return (await readWholeFile(path, { maxLength })).toString('utf8');
  } catch {
    return undefined;
  }
}

/** @param directory of the group. */
export async function readOwner(directory: string): Promise<string | undefined> {
  const [line] = (await readText(`${directory}/owner`))?.split('\n', 1) ?? [];
  return line?.trim() || undefined;
}

/** What a listing shows of notes. */
export function firstLine(notes: string | undefined): string | undefined {
  return notes?.split(/\r?\n/, 1)[0] || undefined;
}

/** @param directory of the group. */
export async function readNotes(directory: string): Promise<string | undefined> {
  return (await readText(`${directory}/notes`))?.trimEnd() || undefined;
}
