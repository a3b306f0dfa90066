/**
 * Gives the memory of freed chunks back to the system once a mount is idle. glibc keeps it otherwise, all of what
 * the cache held at its fullest. While somebody reads it should: to have every chunk mapped anew and its pages
 * cleared costs 40 % more processor time.
 */
import type { Libc } from './libc.ts';

/** Milliseconds; longer than the tree keeps the chunks of closed files. */
const defaultIdleTime = 15_000;

export interface IdleMemory extends Disposable {
  /** A request came. */
  touch(): void;
}

/** @param isInUse whether a file is open, so that its chunks are needed. */
export function releaseIdleMemory(
  libc: Libc | undefined,
  isInUse: () => boolean,
  idleTime: number = defaultIdleTime,
): IdleMemory {
  const timer = setTimeout(() => {
    if (!isInUse()) libc?.trimMemory();
  }, idleTime).unref();
  return {
    touch: () => timer.refresh(),
    [Symbol.dispose]: () => clearTimeout(timer),
  };
}
