/** Members of a directory that cannot be shown: damaged ones, and those with a name no filesystem takes. */
import { isPbsfsError, PbsfsError } from '../../errors.ts';
import { type PxarDirectory, type PxarEntry, whyUnusable } from '../../formats/pxar/entry.ts';
import { formatPxarPath } from './pxar-path.ts';

/** What could not be read, and where. */
export interface PxarDamage {
  /** Of the member, in the metadata stream. */
  readonly position: number;
  /** Undefined where not even the name could be read. */
  readonly name: Buffer | undefined;
  /** `unsupported` for a name that no filesystem can show, else `corrupt` or `chunk-missing`. */
  readonly error: PbsfsError;
}

/** Damage is something to step over; that a server cannot be reached is not. */
export function isDamage(error: unknown): error is PbsfsError {
  return isPbsfsError(error, 'corrupt', 'chunk-missing');
}

/**
 * Damage of the stored bytes, and not of what they say: tried another time they may be there. Such an error
 * tells the range that cannot be read; those of our decoders tell a position.
 */
export function isUnreadable(error: PbsfsError): boolean {
  return isDamage(error) && error.context.length !== undefined;
}

/**
 * What `error` means for the member of `parent` at `position`.
 * @throws `error` itself where it is no damage.
 */
export function damageOf(
  error: unknown,
  position: number,
  parent: PxarDirectory,
  name: Buffer | undefined,
): PxarDamage {
  if (!isDamage(error)) throw error;
  const path = formatPxarPath(name === undefined ? parent : { name, parent });
  return { position, name, error: error.at({ path, offset: position }) };
}

/** The damage that a name is which no filesystem can show; undefined where it is a good one. */
export function unusableName(entry: PxarEntry): PxarDamage | undefined {
  const why = whyUnusable(entry.nameKey);
  return why === undefined ? undefined : hidden(entry, why);
}

/** The damage that a member is whose name another one has already. */
export function repeatedName(entry: PxarEntry): PxarDamage {
  return hidden(entry, `the name '${entry.name.toString()}' for the second time`);
}

function hidden(entry: PxarEntry, what: string): PxarDamage {
  const { position, name, parent } = entry;
  const context = { path: formatPxarPath(parent ?? entry), offset: position };
  const error = new PbsfsError('unsupported', `${what} cannot be shown`, { context });
  return { position, name, error };
}
