/** Ctrl-C and its kin for a job that cleans up before it ends. */
import { catchEndSignals } from './end-signals.ts';
import { exitCodes } from './exit-code.ts';

export interface AbortSignals extends Disposable {
  /** Fires at the first signal. */
  readonly signal: AbortSignal;
}

/** Until it is disposed, a first signal only fires `signal`; a second one ends the process. */
export function abortOnSignals(): AbortSignals {
  const signals = catchEndSignals();
  const abort = new AbortController();
  void signals.first.then(() => abort.abort());
  void signals.second.then(() => process.exit(exitCodes.aborted));
  return { signal: abort.signal, [Symbol.dispose]: () => signals[Symbol.dispose]() };
}
