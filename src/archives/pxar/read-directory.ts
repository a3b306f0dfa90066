/**
 * What there is to find the members of a directory with: its goodbye table; or, where that is broken, the
 * members themselves, from a pass over the directory.
 */
import { PbsfsError } from '../../errors.ts';
import { nameKey, type PxarDirectory, type PxarEntry } from '../../formats/pxar/entry.ts';
import {
  decodeGoodbyeTail,
  GoodbyeTable,
  goodbyeItemSize,
  maxMembers,
} from '../../formats/pxar/goodbye.ts';
import { type ReadAt, readExactly } from '../../read-at.ts';
import { isDamage, type PxarDamage, repeatedName } from './damage.ts';
import { type PxarStep, walkItems } from './walk.ts';
import { Window } from './window.ts';

/** The members of a directory in the order of the archive. */
export interface PxarListing {
  readonly members: readonly PxarEntry[];
  /** Members that cannot be shown; a listing with damage may be incomplete. */
  readonly damaged: readonly PxarDamage[];
}

/** The members of a directory without a usable table. */
export interface ScannedDirectory {
  readonly listing: PxarListing;
  /** By `nameKey`. */
  readonly byName: ReadonlyMap<string, PxarEntry>;
}

/**
 * The goodbye table of a directory.
 * @throws PbsfsError `corrupt` where it is broken.
 */
export async function readTable(
  source: ReadAt,
  { membersStart, end }: PxarDirectory,
  signal?: AbortSignal,
): Promise<GoodbyeTable> {
  const room = (end ?? membersStart) - membersStart;
  if (end === undefined || room < goodbyeItemSize) {
    throw new PbsfsError('corrupt', `${room} bytes hold no goodbye table`);
  }
  const tail = await readExactly(source, end - goodbyeItemSize, goodbyeItemSize, signal);
  const size = decodeGoodbyeTail(tail, 0);
  if (size > room) {
    throw new PbsfsError('corrupt', `a goodbye table of ${size} bytes in a directory of ${room}`);
  }
  const bytes = await readExactly(source, end - size, size, signal);
  return new GoodbyeTable(bytes, end - size, membersStart);
}

/**
 * Lists a directory without its goodbye table. What lies behind damage is missing.
 * @throws PbsfsError `corrupt` where it has too many members; `unreachable`, `aborted`, …
 */
export async function scanDirectory(
  source: ReadAt,
  directory: PxarDirectory,
  signal?: AbortSignal,
): Promise<ScannedDirectory> {
  const members: PxarEntry[] = [];
  const damaged: PxarDamage[] = [];
  const limit = directory.end ?? source.size;
  let depth = 0;
  for await (const step of walkItems(new Window(source, signal), directory, limit, giveUp)) {
    if (step.step === 'enter') depth++;
    if (step.step === 'leave') depth--;
    const found = whatIsDone(step);
    if (found !== undefined && depth === 1) members.push(found);
    // Damage further down hides what comes behind it up here too; a bad name does not.
    if (step.step === 'damaged' && (depth === 1 || isDamage(step.damage.error))) {
      damaged.push(step.damage);
    }
    if (members.length > maxMembers) {
      throw new PbsfsError('corrupt', `a directory has more than ${maxMembers} members`);
    }
  }
  const listing = withoutDuplicates({ members, damaged });
  return { listing, byName: mapByName(listing.members) };
}

/** The entry that a step has come to the end of. */
function whatIsDone(step: PxarStep): PxarEntry | undefined {
  if (step.step === 'leaf') return step.entry;
  return step.step === 'leave' ? step.directory : undefined;
}

const giveUp = async (): Promise<undefined> => undefined;

function mapByName(members: readonly PxarEntry[]): ReadonlyMap<string, PxarEntry> {
  return new Map(members.map((member) => [member.nameKey, member]));
}

/**
 * Each name once: of members with one name only the first stays, the others become damage; damage under a
 * name that is there loses the name.
 */
export function withoutDuplicates({ members, damaged }: PxarListing): PxarListing {
  const names = new Set<string>();
  const isFirst = (key: string): boolean => {
    const before = names.size;
    return names.add(key).size > before;
  };
  const repeated: PxarDamage[] = [];
  const kept = members.filter((member) => {
    const isKept = isFirst(member.nameKey);
    if (!isKept) repeated.push(repeatedName(member));
    return isKept;
  });
  const others = damaged.map((one) =>
    one.name === undefined || isFirst(nameKey(one.name)) ? one : { ...one, name: undefined },
  );
  return { members: kept, damaged: [...others, ...repeated] };
}
