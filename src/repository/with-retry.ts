/**
 * Tries again what another try may mend: a server that is away, a connection that broke, a deadline that
 * passed. The waits between grow and vary, so that many readers do not come back all at the same moment.
 * Everything else is passed on at once.
 *
 *   try ── fails ── wait 0.2 s ── try ── fails ── wait 0.4 s ── … ── give up after a minute
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { abortError } from '../abort.ts';
import { isPbsfsError, PbsfsError } from '../errors.ts';
import { createTrace } from '../log.ts';
import type { Repository, SnapshotReader } from './repository.ts';

const trace = createTrace('retry');

export interface RetryOptions {
  /** Milliseconds of the first wait. Each further one is twice as long, up to `maxWait`. */
  readonly firstWait?: number;
  readonly maxWait?: number;
  /** Milliseconds after the first failure during which tries are started. A server restarts in less. */
  readonly giveUpAfter?: number;
}

export const defaultRetry: Required<RetryOptions> = {
  firstWait: 200,
  maxWait: 8_000,
  giveUpAfter: 60_000,
};
/** A wait is at least this part of its nominal length; the rest is left to chance. */
const fixedPart = 0.5;

/** The same repository, in worse weather. */
export function withRetry(repository: Repository, options: RetryOptions = {}): Repository {
  const closing = new AbortController();
  const retry = createRetry({ ...defaultRetry, ...options }, closing.signal);
  return {
    name: repository.name,
    listNamespaces: (parent, signal) =>
      retry(() => repository.listNamespaces(parent, signal), signal),
    listGroups: (namespace, signal) =>
      retry(() => repository.listGroups(namespace, signal), signal),
    listSnapshots: (group, signal) => retry(() => repository.listSnapshots(group, signal), signal),
    describeSnapshot: (snapshot, signal) =>
      retry(() => repository.describeSnapshot(snapshot, signal), signal),
    readNotes: (of, signal) => retry(() => repository.readNotes(of, signal), signal),
    openSnapshot: (snapshot, signal) =>
      retry(
        async () => retriedReader(await repository.openSnapshot(snapshot, signal), retry),
        signal,
      ),
    status: (signal) => retry(() => repository.status(signal), signal),
    async [Symbol.asyncDispose]() {
      closing.abort(new PbsfsError('aborted', 'the repository was closed'));
      await repository[Symbol.asyncDispose]();
    },
  };
}

type Retry = <T>(action: () => Promise<T>, signal: AbortSignal | undefined) => Promise<T>;

function retriedReader(reader: SnapshotReader, retry: Retry): SnapshotReader {
  return {
    snapshot: reader.snapshot,
    readFile: (filename, signal) => retry(() => reader.readFile(filename, signal), signal),
    readChunk: (digest, signal) => retry(() => reader.readChunk(digest, signal), signal),
    dropChunk: async (digest, raw) => (await reader.dropChunk?.(digest, raw)) ?? false,
    [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
  };
}

function createRetry(options: Required<RetryOptions>, closing: AbortSignal): Retry {
  return async (action, signal) => {
    let deadline: number | undefined;
    for (let wait = options.firstWait; ; wait = Math.min(2 * wait, options.maxWait)) {
      try {
        return await action();
      } catch (error) {
        // The caller's own deadline is a `timeout` too.
        if (!isPbsfsError(error, 'unreachable', 'timeout') || signal?.aborted === true) throw error;
        const pause = wait * (fixedPart + (1 - fixedPart) * Math.random());
        deadline ??= performance.now() + options.giveUpAfter;
        if (performance.now() + pause > deadline) throw error;
        trace('%s: again in %d ms', error.message, pause);
        await pauseFor(pause, closing, signal);
      }
    }
  };
}

/** @throws PbsfsError `aborted`, `timeout` */
async function pauseFor(
  milliseconds: number,
  closing: AbortSignal,
  signal: AbortSignal | undefined,
): Promise<void> {
  const stop = signal === undefined ? closing : AbortSignal.any([closing, signal]);
  try {
    await sleep(milliseconds, undefined, { signal: stop });
  } catch {
    throw abortError(stop);
  }
}
