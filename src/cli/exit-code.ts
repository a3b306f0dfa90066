/** From the code of an error to the exit status; `docs/semantics.md` shows the same table. */
import { type ErrorCode, toPbsfsError } from '../errors.ts';

export const exitCodes: Readonly<Record<ErrorCode, number>> = {
  'not-found': 3,
  stale: 3,
  corrupt: 6,
  'chunk-missing': 6,
  'key-missing': 5,
  'key-wrong': 5,
  'access-denied': 4,
  'read-only': 1,
  unreachable: 7,
  timeout: 7,
  aborted: 130,
  usage: 2,
  'is-directory': 1,
  'not-directory': 3,
  unsupported: 1,
  failed: 1,
  bug: 70,
};

/** The exit status for whatever was thrown. */
export function exitCodeOf(error: unknown): number {
  return exitCodes[toPbsfsError(error).code];
}

/** The table that every `--help` ends with. */
export const exitCodeHelp = `Exit codes:
  0 done   1 failed   2 wrong usage   3 not found   4 access denied   5 key missing or wrong
  6 data corrupt or missing   7 server unreachable   70 a bug   130 interrupted`;
