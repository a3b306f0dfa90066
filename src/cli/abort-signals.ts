/** Ctrl-C and its kin for a job that cleans up before it ends. */
import { catchEndSignals } from './end-signals.ts';

export interface AbortSignals extends Disposable {
  /** Fires at the first signal. */
  readonly signal: AbortSignal;
}

/** Until it is disposed, a first signal only fires `signal`; a second one kills the process. */
export function abortOnSignals(): AbortSignals {
  const signals = catchEndSignals();
  const abort = new AbortController();
  void signals.first.then(() => abort.abort());
  void signals.second.then(() => {
    // process.exit() would wait for a write that hangs.
    signals[Symbol.dispose]();
    process.kill(process.pid, 'SIGINT');
  });
  return { signal: abort.signal, [Symbol.dispose]: () => signals[Symbol.dispose]() };
}

/** For a job that leaves nothing behind: a signal kills the process, also while it waits for a reader. */
export function neverAborted(): AbortSignals {
  return { signal: new AbortController().signal, [Symbol.dispose]: () => {} };
}
