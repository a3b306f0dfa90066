/** Prepares what comes next while what is there is in use, and keeps the order. */

/**
 * Gives `prepare` of each item in order, up to `ahead` of them on their way at once. What was prepared and is not
 * taken any more, since the consumer left or something failed, is disposed.
 */
export async function* mapAhead<T, R extends AsyncDisposable>(
  items: AsyncIterable<T>,
  ahead: number,
  prepare: (item: T) => Promise<R | undefined>,
): AsyncGenerator<R, void, undefined> {
  const waiting: Promise<R | undefined>[] = [];
  const takeFirst = async (): Promise<R | undefined> => {
    // It stays in the list until it is there, to be disposed should it fail.
    const prepared = await waiting[0];
    waiting.splice(0, 1);
    return prepared;
  };
  try {
    for await (const item of items) {
      const prepared = prepare(item);
      // Awaited in its turn; a failure before that is not unhandled.
      prepared.catch(() => {});
      waiting.push(prepared);
      if (waiting.length <= ahead) continue;
      const first = await takeFirst();
      if (first !== undefined) yield first;
    }
    while (waiting.length > 0) {
      const first = await takeFirst();
      if (first !== undefined) yield first;
    }
  } finally {
    for (const prepared of waiting) {
      const left = await prepared.catch(() => undefined);
      await left?.[Symbol.asyncDispose]();
    }
  }
}
