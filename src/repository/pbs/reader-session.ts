/**
 * One session of the reader protocol: HTTP/2 on an upgraded connection, for one snapshot, whose lock the
 * server holds meanwhile.
 *
 *   /download?file-name=NAME   a stored file; of an index also: its chunks may be read from now on
 *   /chunk?digest=HEX          a stored chunk, with its length
 *
 * Source: PBS `pbs-client/src/backup_reader.rs`.
 */
import http2, { type ClientHttp2Session } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { isPbsfsError, PbsfsError } from '../../errors.ts';
import { encryptedHeaderSize, maxChunkSize } from '../../formats/data-blob.ts';
import { createTrace } from '../../log.ts';
import { answerError } from './answer-error.ts';
import type { Deadlines } from './deadlines.ts';
import { type Http2Answer, type Http2Request, http2Get } from './http2-get.ts';
import { type IndexIdentity, identityLength, isSameIndex } from './index-identity.ts';

const trace = createTrace('pbs');

/** A chunk of 16 MiB has to fit into the window of its stream, so that no round trip is waited for. */
const streamWindow = 32 * 1024 * 1024;
/** All streams together: far more than a line holds, half of what PBS's client gives. */
const sessionWindow = 1024 * 1024 * 1024;
/** Streams take turns by frames: 32 of them on a line of 1 Mbit/s stay well within the deadline of progress. */
const maxFrameSize = 64 * 1024;
/** MB. Node's own default of 10 ends sessions with many chunks in flight. */
const maxSessionMemory = 1024;
/** Compression is only kept where it makes a chunk smaller, so nothing but the header comes on top. */
const maxStoredChunk = maxChunkSize + encryptedHeaderSize;

export class ReaderSession implements Disposable {
  /** Called when the session has ended, by whichever side. */
  onEnd: () => void = () => {};
  readonly #session: ClientHttp2Session;
  readonly #place: string;
  readonly #deadlines: Deadlines;
  readonly #registrations = new Map<string, Promise<void>>();
  readonly #ping: NodeJS.Timeout;
  #awaitsPong = false;

  constructor(socket: TLSSocket, place: string, deadlines: Deadlines) {
    this.#place = place;
    this.#deadlines = deadlines;
    this.#session = http2.connect(`https://${place}`, {
      createConnection: () => socket,
      maxSessionMemory,
      settings: { initialWindowSize: streamWindow, maxFrameSize, enablePush: false },
    });
    this.#session.setLocalWindowSize(sessionWindow);
    // Every stream in flight gets the error too, and tells it.
    this.#session.on('error', (error) => trace('session %s: %s', place, error.message));
    this.#session.on('close', () => {
      clearInterval(this.#ping);
      this.onEnd();
    });
    this.#ping = setInterval(() => this.#sendPing(), deadlines.ping).unref();
  }

  /** New requests may be sent. */
  get isUsable(): boolean {
    return !this.#session.closed && !this.#session.destroyed;
  }

  /**
   * A stored file, whole. @throws PbsfsError `not-found` for 404; `failed`, `unreachable`, `timeout`
   */
  async download(filename: string, limit: number, signal?: AbortSignal): Promise<Buffer> {
    const answer = await this.#get({ path: downloadPath(filename), limit, signal });
    if (answer.status === 200) return answer.body;
    if (answer.status === 404) throw new PbsfsError('not-found', 'is not in the snapshot');
    throw answerError(answer.status, answer.body, `download of ${filename}`);
  }

  /**
   * Makes the chunks of an index readable in this session, once. Only the start of the index is awaited, to
   * see that it is the one that was read before.
   * @throws PbsfsError `stale` where it is another one.
   */
  register(filename: string, identity: IndexIdentity): Promise<void> {
    const known = this.#registrations.get(filename);
    if (known !== undefined) return known;
    const registration = this.#register(filename, identity);
    this.#registrations.set(filename, registration);
    registration.catch((error) => {
      // What passes may be tried again; a refusal is not repeated for every chunk.
      if (isPbsfsError(error, 'unreachable', 'timeout')) this.forget(filename);
    });
    return registration;
  }

  /** The next `register` of this index asks the server again. */
  forget(filename: string): void {
    this.#registrations.delete(filename);
  }

  /**
   * A stored chunk, or `undefined` where the server does not allow it in this session.
   * @throws PbsfsError `chunk-missing`, `corrupt`, `unreachable`, `timeout`, `aborted`
   */
  async readChunk(digest: Uint8Array, signal?: AbortSignal): Promise<Buffer | undefined> {
    const hex = Buffer.from(digest).toString('hex');
    const path = `/chunk?digest=${hex}`;
    const answer = await this.#get({ path, limit: maxStoredChunk, signal });
    if (answer.status === 200) return answer.body;
    if (answer.status === 401) return undefined;
    // PBS says 400 for a chunk that it cannot read, others 404.
    if (answer.status === 400 || answer.status === 404) {
      const { message } = answerError(answer.status, answer.body, 'chunk');
      throw new PbsfsError('chunk-missing', message, { context: { digest: hex } });
    }
    throw answerError(answer.status, answer.body, 'chunk').at({ digest: hex });
  }

  /** Ends at once, and so lets the snapshot's lock go. Works with a dead peer too. */
  [Symbol.dispose](): void {
    clearInterval(this.#ping);
    this.#session.destroy(new PbsfsError('aborted', 'the session was closed'));
  }

  async #register(filename: string, identity: IndexIdentity): Promise<void> {
    const answer = await this.#get({
      path: downloadPath(filename),
      limit: Number.MAX_SAFE_INTEGER,
      enough: identityLength,
    });
    if (answer.status !== 200) {
      throw answerError(answer.status, answer.body, `download of ${filename}`);
    }
    if (!isSameIndex(identity, answer.body)) {
      throw new PbsfsError('stale', `${filename} is another one than when it was opened`);
    }
  }

  async #get(request: Omit<Http2Request, 'place' | 'deadlines'>): Promise<Http2Answer> {
    const surroundings = { place: this.#place, deadlines: this.#deadlines };
    try {
      const answer = await http2Get(this.#session, { ...request, ...surroundings });
      trace('%s: %d, %d bytes', request.path, answer.status, answer.body.length);
      return answer;
    } catch (error) {
      trace('%s: %s', request.path, String(error));
      throw error;
    }
  }

  #sendPing(): void {
    if (this.#awaitsPong) {
      const silence = `${this.#place} gave no sign of life for ${this.#deadlines.ping} ms`;
      this.#session.destroy(new PbsfsError('unreachable', silence));
      return;
    }
    this.#awaitsPong = true;
    try {
      this.#session.ping(() => {
        this.#awaitsPong = false;
      });
    } catch {
      // Ended meanwhile: its close is reported by itself.
    }
  }
}

function downloadPath(filename: string): string {
  return `/download?file-name=${encodeURIComponent(filename)}`;
}
