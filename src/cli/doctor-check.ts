/** One line of `pbsfs doctor`. */
import { formatContext, toPbsfsError } from '../errors.ts';
import { exitCodeOf } from './exit-code.ts';
import { oneLine } from './output.ts';

export interface Check {
  /** What was looked at. */
  readonly name: string;
  /** `warn`: works without it, with a limit. */
  readonly status: 'ok' | 'warn' | 'fail';
  readonly detail: string;
  /** How to mend it. */
  readonly hint?: string | undefined;
  /** What the command ends with if this is the first failure. */
  readonly exitCode?: number;
}

export function ok(name: string, detail: string): Check {
  return { name, status: 'ok', detail };
}

export function warn(name: string, detail: string, hint?: string): Check {
  return { name, status: 'warn', detail, hint };
}

export function fail(name: string, error: unknown): Check {
  const known = toPbsfsError(error);
  const place = formatContext(known.context);
  const detail = place === '' ? known.message : `${place}: ${known.message}`;
  return { name, status: 'fail', detail, hint: known.hint, exitCode: exitCodeOf(known) };
}

/** `ok    name: detail (how to mend it)`. */
export function formatCheck({ name, status, detail, hint }: Check): string {
  const mark = status === 'fail' ? 'FAIL' : status;
  return oneLine(`${mark.padEnd(5)} ${name}: ${detail}${hint === undefined ? '' : ` (${hint})`}`);
}
