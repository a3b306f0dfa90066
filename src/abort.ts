/**
 * Giving up, in the words of `errors.ts`: an `AbortSignal` that fired becomes `timeout` where it was a
 * deadline and `aborted` otherwise, whatever reason its owner gave.
 */
import { PbsfsError } from './errors.ts';

/** The error to throw for a signal that fired. */
export function abortError(signal: AbortSignal): PbsfsError {
  const reason: unknown = signal.reason;
  if (reason instanceof PbsfsError) return reason;
  const isDeadline = reason instanceof Error && reason.name === 'TimeoutError';
  return isDeadline
    ? new PbsfsError('timeout', 'the deadline passed', { cause: reason })
    : new PbsfsError('aborted', 'interrupted', { cause: reason });
}

/** @throws PbsfsError `aborted`, `timeout` where the signal fired already. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortError(signal);
}

/**
 * Waits for `promise` until the signal fires. What the promise stands for goes on, and its outcome is then
 * dropped: the way to leave an operation that cannot be stopped.
 * @throws PbsfsError `aborted`, `timeout`
 */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    const leave = () => reject(abortError(signal));
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}
