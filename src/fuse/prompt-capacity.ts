/**
 * Free space for statfs(2) without waiting for it: umount(8) asks before it unmounts, and neither that nor
 * df(1) may hang while a server is away. Until an answer comes, the last one is given, or that nothing is known.
 */
import type { Capacity } from './driver.ts';

/** Milliseconds: longer than a server far away takes. */
const patience = 500;
const unknown: Capacity = { total: 0, used: 0, available: 0 };

/** Never fails. */
export function promptCapacity(ask: () => Promise<Capacity>): () => Promise<Capacity> {
  let last = unknown;
  let asking: Promise<void> | undefined;
  const refresh = async (): Promise<void> => {
    try {
      last = await ask();
    } catch {
      // What cannot be asked for stays as it was.
    } finally {
      asking = undefined;
    }
  };
  return async () => {
    asking ??= refresh();
    const { promise: passed, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, patience);
    await Promise.race([asking, passed]);
    clearTimeout(timer);
    return last;
  };
}
