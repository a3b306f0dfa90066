/** How long each part of a conversation with a server may take, in milliseconds. */

export interface Deadlines {
  /** From the name to the finished TLS handshake, the proxy included. */
  readonly connect: number;
  /** From a request to the head of its answer. */
  readonly headers: number;
  /** The same for a file or chunk within a reader session. */
  readonly chunk: number;
  /** Between two pieces of a body. */
  readonly progress: number;
  /** A reader session in use is asked for a sign of life this often, and has as long to give it. */
  readonly ping: number;
  /** Without use for so long, a reader session is closed. */
  readonly idle: number;
}

/**
 * Connect and headers are those of PBS's client: a listing opens every manifest on the server. A chunk is one
 * file to read there, from disks that may have to wake up, and its answer may wait behind others on a slow line.
 * A link that died is found by the ping, well before that. Some minutes of idleness are long enough for a
 * pause between two reads, and short enough not to stand in the way of pruning.
 */
export const defaultDeadlines: Deadlines = {
  connect: 10_000,
  headers: 120_000,
  chunk: 60_000,
  progress: 30_000,
  ping: 15_000,
  idle: 180_000,
};
