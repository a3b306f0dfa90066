/**
 * The head of one HTTP/1.1 answer, read from a socket that is about to carry something else: a tunnel
 * behind CONNECT, HTTP/2 behind an upgrade. Not a byte behind the head is lost.
 */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { PbsfsError } from '../../errors.ts';

export interface HttpHead {
  readonly status: number;
  /** Names in lower case; of repeated headers the last. */
  readonly headers: ReadonlyMap<string, string>;
}

/** Heads of real servers have some hundred bytes. */
const maxHeadLength = 64 * 1024;
const blankLine = '\r\n\r\n';

/** The next bytes of a paused socket, or undefined at its end. */
export async function readSome(socket: Socket): Promise<Buffer | undefined> {
  for (;;) {
    const bytes = socket.read() as Buffer | null;
    if (bytes !== null) return bytes;
    if (socket.readableEnded || socket.destroyed) return undefined;
    await firstOf(socket, ['readable', 'end', 'close']);
  }
}

/**
 * Waits for the first of the events and gives its name; no listener stays behind.
 * @throws what the socket emits as `error`
 */
export async function firstOf<E extends string>(socket: Socket, events: readonly E[]): Promise<E> {
  const others = new AbortController();
  const { signal } = others;
  try {
    return await Promise.race(
      events.map(async (event) => {
        await once(socket, event, { signal });
        return event;
      }),
    );
  } finally {
    others.abort();
  }
}

/**
 * Reads to the blank line and puts back what came behind it.
 * @throws PbsfsError `unreachable` where the peer ends before, or speaks something else.
 */
export async function readHttpHead(socket: Socket): Promise<HttpHead> {
  let bytes = Buffer.alloc(0);
  for (;;) {
    const part = await readSome(socket);
    if (part === undefined) throw new PbsfsError('unreachable', 'the connection ended');
    bytes = Buffer.concat([bytes, part]);
    const end = bytes.indexOf(blankLine);
    if (end >= 0) {
      const rest = bytes.subarray(end + blankLine.length);
      if (rest.length > 0) socket.unshift(rest);
      return parseHead(bytes.toString('latin1', 0, end));
    }
    if (bytes.length > maxHeadLength) {
      throw new PbsfsError('unreachable', `the answer's head exceeds ${maxHeadLength} bytes`);
    }
  }
}

function parseHead(text: string): HttpHead {
  const [statusLine = '', ...lines] = text.split('\r\n');
  const status = /^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(statusLine)?.[1];
  if (status === undefined) {
    throw new PbsfsError('unreachable', 'what answers there does not speak HTTP/1.1');
  }
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  return { status: Number(status), headers: new Map(headers) };
}
