/**
 * Answers that are no success, as errors. PBS answers nearly every failure with 400 and plain text, so the
 * text is shown and nothing is read out of it.
 */
import { STATUS_CODES } from 'node:http';
import { PbsfsError } from '../../errors.ts';

/** Longer texts are pages or backtraces. */
const maxTextLength = 300;
/** Statuses that another try may mend: overload, and gateways whose server is away. */
const passing = [408, 425, 429, 500, 502, 503, 504];

/** The text of an answer on one line, or undefined where it has none worth showing. */
export function answerText(body: Uint8Array): string | undefined {
  const text = Buffer.from(body)
    .toString('utf8', 0, 4 * maxTextLength)
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim();
  if (isWebPage(text)) {
    const title = /<title>\s*([^<]*?)\s*<\/title>/i.exec(text)?.[1];
    return title === undefined || title === '' ? 'a web page' : `a web page, '${title}'`;
  }
  if (text === '') return undefined;
  return text.length > maxTextLength ? `'${text.slice(0, maxTextLength)}…'` : `'${text}'`;
}

/** What a reverse proxy or a portal answers in the place of PBS. */
export function isWebPage(text: string): boolean {
  return /^\s*<(?:!doctype|html)/i.test(text);
}

/** Something else than PBS answers, at least for now. */
export function webPageError(body: Uint8Array): PbsfsError {
  return new PbsfsError('unreachable', `${answerText(body)} answers in the place of PBS`, {
    hint: 'check host and port, and what stands between',
  });
}

/** What an error was made of, where it was made of an answer. */
class AnswerStatus extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`HTTP status ${status}`);
    this.status = status;
  }
}

/** The status of the answer that an error stands for; undefined for other errors. */
export function statusOf(error: unknown): number | undefined {
  const cause = error instanceof PbsfsError ? error.cause : undefined;
  return cause instanceof AnswerStatus ? cause.status : undefined;
}

/**
 * @param what names the request, for the message.
 * @returns `unreachable` for what may pass, `access-denied` for 401 and 403, else `failed`.
 */
export function answerError(status: number, body: Uint8Array, what: string): PbsfsError {
  const text = answerText(body);
  const said = `${what}: the server answers ${status} ${STATUS_CODES[status] ?? ''}`.trimEnd();
  const message = text === undefined ? said : `${said}: ${text}`;
  const cause = new AnswerStatus(status);
  if (status === 401 || status === 403) return new PbsfsError('access-denied', message, { cause });
  if (status === 200 && isWebPage(Buffer.from(body).toString())) return webPageError(body);
  if (passing.includes(status)) return new PbsfsError('unreachable', message, { cause });
  if (status >= 300 && status < 400) {
    const hint = 'check host and port: PBS listens on 8007';
    return new PbsfsError('failed', message, { cause, hint });
  }
  return new PbsfsError('failed', message, { cause });
}
