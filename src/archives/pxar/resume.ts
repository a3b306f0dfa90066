/**
 * Finds where a pass over an archive can go on behind damage. A forward pass has lost its place there; the
 * goodbye tables, from the outermost directory inward, say what comes next.
 */
import type { PxarDirectory } from '../../formats/pxar/entry.ts';
import type { GoodbyeTable } from '../../formats/pxar/goodbye.ts';
import type { ReadAt } from '../../read-at.ts';
import { isDamage } from './damage.ts';
import { readTable } from './read-directory.ts';
import type { Resume, ResumePoint } from './walk.ts';

/** A `Resume` by the goodbye tables in `source`. */
export function resumeByTables(source: ReadAt, signal?: AbortSignal): Resume {
  return async (stack, position) => {
    let point: ResumePoint | undefined;
    let end = stack[0]?.end;
    for (const [i, directory] of stack.entries()) {
      const table = await tryTable(source, directory.endingAt(end), signal);
      const next = table === undefined ? undefined : nextItem(table, position);
      if (table === undefined || next === undefined) break;
      point = { depth: i + 1, position: next };
      const child = stack[i + 1];
      end = child === undefined ? undefined : table.memberEnd(child.position);
    }
    return point;
  };
}

async function tryTable(
  source: ReadAt,
  directory: PxarDirectory,
  signal: AbortSignal | undefined,
): Promise<GoodbyeTable | undefined> {
  try {
    return await readTable(source, directory, signal);
  } catch (error) {
    if (isDamage(error)) return undefined;
    throw error;
  }
}

/** The first member behind `position`, or the table itself. Never `position` again: a pass must go on. */
function nextItem(table: GoodbyeTable, position: number): number | undefined {
  return position < table.position ? table.memberEnd(position) : undefined;
}
