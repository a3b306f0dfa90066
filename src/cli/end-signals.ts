/** The signals that end a mount, caught for as long as there is something to clean up. */

const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** A Ctrl-C that reaches a process twice, by the terminal and by who started it, counts once. */
const sameKeyMilliseconds = 250;

export interface EndSignals extends Disposable {
  /** A signal came, or a fault of our own that ends the process. */
  readonly first: Promise<void>;
  /** Another one, by somebody who does not want to wait. */
  readonly second: Promise<void>;
}

/** Keeps the signals from killing the process until it is disposed. */
export function catchEndSignals(): EndSignals {
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  let firstTime: number | undefined;
  const onSignal = (): void => {
    const now = performance.now();
    firstTime ??= now;
    if (now - firstTime > sameKeyMilliseconds) second.resolve();
    first.resolve();
  };
  for (const name of names) process.on(name, onSignal);
  process.on('uncaughtException', onSignal);
  return {
    first: first.promise,
    second: second.promise,
    [Symbol.dispose]: () => {
      for (const name of names) process.off(name, onSignal);
      process.off('uncaughtException', onSignal);
    },
  };
}
