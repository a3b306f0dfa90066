/**
 * Tells the administrator about requests that failed: one line each, and the same line at most once a
 * minute, since a reader that stumbles over a bad chunk tends to come again at once.
 */
import { type ErrorCode, formatContext, formatError, type PbsfsError } from '../errors.ts';
import type { Logger, LogLevel } from '../log.ts';

const quietMilliseconds = 60_000;
/** Bound of the memory for lines that were told; the oldest is dropped. */
const maxRemembered = 1000;

const levelOf = {
  'not-found': 'warn',
  stale: 'info',
  corrupt: 'error',
  'chunk-missing': 'error',
  'key-missing': 'warn',
  'key-wrong': 'warn',
  'access-denied': 'warn',
  'read-only': 'info',
  unreachable: 'error',
  timeout: 'error',
  aborted: 'debug',
  usage: 'warn',
  'is-directory': 'warn',
  'not-directory': 'warn',
  unsupported: 'warn',
  failed: 'error',
  bug: 'error',
} as const satisfies Record<ErrorCode, LogLevel>;

interface Told {
  readonly since: number;
  repeats: number;
}

/** Takes failures by the name of the operation. */
export type FailureLog = (operation: string, error: PbsfsError) => void;

/** @param now milliseconds. */
export function createFailureLog(logger: Logger, now: () => number = Date.now): FailureLog {
  const told = new Map<string, Told>();
  return (operation, error) => {
    const key = subjectOf(error);
    const before = told.get(key);
    const time = now();
    if (before !== undefined && time - before.since < quietMilliseconds) {
      before.repeats++;
      return;
    }
    told.delete(key);
    told.set(key, { since: time, repeats: 0 });
    const [oldest] = told.keys();
    if (told.size > maxRemembered && oldest !== undefined) told.delete(oldest);
    const repeats = before?.repeats ?? 0;
    const again = repeats === 0 ? '' : ` (and ${repeats} times more since the last report)`;
    logger(levelOf[error.code], `${operation}: ${formatError(error)}${again}`);
    if (error.code === 'bug') logger('debug', stackOf(error));
  };
}

/** What a failure is about: of a bad chunk every offset is the same story. */
function subjectOf(error: PbsfsError): string {
  const { offset, length, ...place } = error.context;
  if (place.digest === undefined) return formatError(error);
  return `${error.code}: ${formatContext(place)}`;
}

function stackOf(error: PbsfsError): string {
  const { cause } = error;
  return (cause instanceof Error ? cause.stack : error.stack) ?? error.message;
}
