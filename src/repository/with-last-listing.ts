/**
 * Goes on with what was listed before while a repository does not answer, so that a mount whose server is away
 * still leads to the images whose chunks are at hand.
 *
 *   answered in time             the new listing
 *   no answer, listed before     the last listing, at once as long as this lasts; asked again in the background
 *   no answer, never listed      the failure
 */
import { throwIfAborted, unlessAborted } from '../abort.ts';
import { isPbsfsError } from '../errors.ts';
import { formatGroup, formatNamespace, formatSnapshot } from '../formats/snapshot-path.ts';
import type { Logger } from '../log.ts';
import type { Repository } from './repository.ts';

export interface LastListingOptions {
  readonly logger: Logger;
  /** Milliseconds that a new listing is waited for where there is an old one; default 2000. */
  readonly patience?: number;
}

const defaultPatience = 2000;
/** Answers of one kind that are remembered, those asked for longest ago going first. */
const maxAnswers = 1000;

/** The same repository; files and chunks are read as before. */
export function withLastListing(repository: Repository, options: LastListingOptions): Repository {
  const last = new LastAnswers(repository.name, options);
  const status = last.of(
    () => 'status',
    () => repository.status(),
  );
  return {
    name: repository.name,
    listNamespaces: last.of(formatNamespace, (parent) => repository.listNamespaces(parent)),
    listGroups: last.of(formatNamespace, (namespace) => repository.listGroups(namespace)),
    listSnapshots: last.of(formatGroup, (group) => repository.listSnapshots(group)),
    describeSnapshot: last.of(formatSnapshot, (snapshot) => repository.describeSnapshot(snapshot)),
    readNotes: (of, signal) => repository.readNotes(of, signal),
    openSnapshot: (snapshot, signal) => repository.openSnapshot(snapshot, signal),
    status: (signal) => status(undefined, signal),
    [Symbol.asyncDispose]: () => repository[Symbol.asyncDispose](),
  };
}

type Call<A, T> = (argument: A, signal?: AbortSignal) => Promise<T>;

class LastAnswers {
  readonly #name: string;
  readonly #logger: Logger;
  readonly #patience: number;
  #isAway = false;

  constructor(name: string, { logger, patience = defaultPatience }: LastListingOptions) {
    this.#name = name;
    this.#logger = logger;
    this.#patience = patience;
  }

  /** One kind of question. It is asked once at a time, for all who want to know. */
  of<A, T>(keyOf: (argument: A) => string, ask: (argument: A) => Promise<T>): Call<A, T> {
    const answers = new Map<string, T>();
    const asked = new Map<string, Promise<T>>();
    const start = (argument: A, key: string): Promise<T> => {
      const answer = ask(argument).finally(() => asked.delete(key));
      asked.set(key, answer);
      answer.then(
        (value) => {
          this.#setAway(false);
          putLast(answers, key, value);
        },
        (error) => {
          const isAway = isPbsfsError(error, 'unreachable', 'timeout');
          this.#setAway(isAway);
          if (!isAway) answers.delete(key);
        },
      );
      return answer;
    };
    return async (argument, signal) => {
      throwIfAborted(signal);
      const key = keyOf(argument);
      const answer = asked.get(key) ?? start(argument, key);
      const known = answers.get(key);
      return await unlessAborted(
        known === undefined ? answer : this.#inTime(answer, known),
        signal,
      );
    };
  }

  async #inTime<T>(answer: Promise<T>, known: T): Promise<T> {
    if (this.#isAway) return known;
    try {
      return await unlessAborted(answer, AbortSignal.timeout(this.#patience));
    } catch (error) {
      if (!isPbsfsError(error, 'unreachable', 'timeout')) throw error;
      this.#setAway(true);
      return known;
    }
  }

  #setAway(isAway: boolean): void {
    if (isAway === this.#isAway) return;
    this.#isAway = isAway;
    if (isAway)
      this.#logger('warn', `${this.#name} does not answer: showing what it listed before`);
    else this.#logger('info', `${this.#name} answers again`);
  }
}

function putLast<T>(answers: Map<string, T>, key: string, value: T): void {
  answers.delete(key);
  answers.set(key, value);
  const [oldest] = answers.keys();
  if (answers.size > maxAnswers && oldest !== undefined) answers.delete(oldest);
}
