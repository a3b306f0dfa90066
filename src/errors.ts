/**
 * The one error class of the project. Transport errors (node errno, HTTP status, undici) are translated
 * into it once, at the edge of `repository/`; decoders throw nothing else. `fuse/errno.ts` and
 * `cli/exit-code.ts` map every code, so a new code does not compile until both know it.
 */

export type ErrorCode =
  /** A name, group, snapshot or archive that does not exist. */
  | 'not-found'
  /** Was listed before and has been pruned or replaced since. */
  | 'stale'
  /** Bytes that contradict their format, checksum, digest or signature. */
  | 'corrupt'
  /** A chunk that an index names and the repository does not have. */
  | 'chunk-missing'
  /** Encrypted, and no key at all was given. */
  | 'key-missing'
  /** Encrypted, and the given keys, or the passphrase, are not the right ones. */
  | 'key-wrong'
  /** Refused: file permissions, HTTP 401 and 403, certificate fingerprint. */
  | 'access-denied'
  /** An attempt to write. */
  | 'read-only'
  /** The server or its name cannot be reached. */
  | 'unreachable'
  /** A deadline passed. */
  | 'timeout'
  /** The caller gave up (signal, Ctrl-C, interrupted request). */
  | 'aborted'
  /** Wrong arguments or options. */
  | 'usage'
  /** A directory where a file is needed. */
  | 'is-directory'
  /** A file where a directory is needed. */
  | 'not-directory'
  /** Something this version, platform or driver cannot do. */
  | 'unsupported'
  /** Failed in another way: the message says how. */
  | 'failed'
  /** A broken assumption of our own. */
  | 'bug';

/** Where a failure happened. Every field is optional; all that are known are shown. */
export interface ErrorContext {
  readonly repository?: string;
  readonly snapshot?: string;
  readonly archive?: string;
  readonly path?: string;
  /** Byte offset in the plain archive. */
  readonly offset?: number;
  /** Bytes concerned from `offset` on. */
  readonly length?: number;
  /** Chunk digest, lower-case hex. */
  readonly digest?: string;
}

export interface ErrorOptions {
  readonly context?: ErrorContext;
  /** What the user can do about it. */
  readonly hint?: string;
  readonly cause?: unknown;
}

export class PbsfsError extends Error {
  readonly code: ErrorCode;
  readonly context: ErrorContext;
  readonly hint: string | undefined;

  /** @param message what is wrong, with the figures, without the place: that is `options.context`. */
  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.name = 'PbsfsError';
    this.code = code;
    this.context = options.context ?? {};
    this.hint = options.hint;
  }

  /** The same failure with more about the place; what is known already wins. */
  at(context: ErrorContext): PbsfsError {
    const merged = new PbsfsError(this.code, this.message, {
      context: { ...context, ...this.context },
      ...(this.hint === undefined ? {} : { hint: this.hint }),
      cause: this.cause ?? this,
    });
    if (this.stack !== undefined) merged.stack = this.stack;
    return merged;
  }
}

/** Narrows to our own error, and to some of its codes when any are given. */
export function isPbsfsError(error: unknown, ...codes: readonly ErrorCode[]): error is PbsfsError {
  return error instanceof PbsfsError && (codes.length === 0 || codes.includes(error.code));
}

/** Whatever was thrown as our own error; what is not ours already is a `bug`, with its stack kept. */
export function toPbsfsError(error: unknown): PbsfsError {
  if (error instanceof PbsfsError) return error;
  if (error instanceof Error && error.name === 'AbortError') {
    return new PbsfsError('aborted', 'interrupted', { cause: error });
  }
  return new PbsfsError('bug', error instanceof Error ? error.message : String(error), {
    cause: error,
  });
}

/** Runs `action`; a failure gets `context` added. */
export async function withContext<T>(context: ErrorContext, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw toPbsfsError(error).at(context);
  }
}

/** `repository: snapshot: archive: path: at offset N, M bytes: chunk DIGEST`, only what is known. */
export function formatContext(context: ErrorContext): string {
  const parts: string[] = [];
  for (const part of [context.repository, context.snapshot, context.archive, context.path]) {
    if (part !== undefined) parts.push(part);
  }
  if (context.offset !== undefined) {
    const length = context.length === undefined ? '' : `, ${context.length} bytes`;
    parts.push(`at offset ${context.offset}${length}`);
  }
  if (context.digest !== undefined) parts.push(`chunk ${context.digest}`);
  return parts.join(': ');
}

/** One line: `where: why (what to do)`. */
export function formatError(error: unknown): string {
  const known = toPbsfsError(error);
  const where = formatContext(known.context);
  const hint = known.hint === undefined ? '' : ` (${known.hint})`;
  return `${where === '' ? '' : `${where}: `}${known.message}${hint}`;
}
