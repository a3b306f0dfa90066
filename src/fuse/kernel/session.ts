/**
 * One mount's conversation with the kernel: takes requests, has them answered by the operations in any
 * order, and keeps account of those in flight, so that an interrupt reaches its victim.
 */
import { toPbsfsError } from '../../errors.ts';
import type { Directory } from '../../tree/node.ts';
import { keepAttributes } from '../attribute-mapping.ts';
import { defaultMutableSeconds, type MountOptions } from '../driver.ts';
import { type ErrnoName, errno, errnoFor } from '../errno.ts';
import { createFailureLog, type FailureLog } from '../failure-log.ts';
import { initRequestSize, negotiate } from '../wire/init.ts';
import { opcode } from '../wire/opcode.ts';
import { encodeReplyHeader } from '../wire/reply.ts';
import { decodeRequest, type Request } from '../wire/request.ts';
import { readU64 } from '../wire/u64.ts';
import { HandleTable } from './handle-table.ts';
import { InodeTable } from './inode-table.ts';
import { type Answer, done, type Operation, type Reply, type Served } from './operation.ts';
import { operations } from './operations.ts';

/** Writes one reply. False where the kernel does not wait for it any more. */
export type SendReply = (parts: readonly Uint8Array[]) => boolean;

export type SessionOptions = Pick<
  MountOptions,
  'capacity' | 'logger' | 'mapAttributes' | 'mutableSeconds'
>;

/** A request that the kernel waits for. */
interface InFlight {
  readonly unique: number;
  readonly controller: AbortController;
  /** The open file that is read; undefined for all else. */
  readonly handle: number | undefined;
}

export class Session {
  /** Resolves when the kernel and we have agreed, so that the mount answers. */
  readonly started: Promise<void>;
  readonly #served: Served;
  readonly #send: SendReply;
  readonly #reportFailure: FailureLog;
  /** Few, and no `Map` for the reason that `HandleTable` tells. */
  readonly #inFlight: InFlight[] = [];
  readonly #start: () => void;

  constructor(root: Directory, send: SendReply, options: SessionOptions) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.started = promise;
    this.#start = resolve;
    this.#send = send;
    this.#reportFailure = createFailureLog(options.logger);
    this.#served = {
      inodes: new InodeTable(root),
      files: new HandleTable(),
      directories: new HandleTable(),
      capacity: options.capacity,
      mapAttributes: options.mapAttributes ?? keepAttributes,
      mutableSeconds: options.mutableSeconds ?? defaultMutableSeconds,
    };
  }

  /** Nodes that the kernel knows, besides the root. */
  get knownInodes(): number {
    return this.#served.inodes.size;
  }

  get openFiles(): number {
    return this.#served.files.size;
  }

  /** Takes one request; `bytes` may be used again when this returns. */
  receive(bytes: Buffer): void {
    const request = decodeRequest(bytes);
    if (request === undefined) return;
    switch (request.opcode) {
      case opcode.init:
        this.#init(request);
        break;
      case opcode.forget:
        this.#forget(request);
        break;
      case opcode.batchForget:
        this.#batchForget(request);
        break;
      case opcode.interrupt:
        this.#interrupt(request);
        break;
      case opcode.flush:
        this.#flush(request);
        break;
      case opcode.destroy:
        this.#answer(request.unique, done);
        break;
      default:
        this.#dispatch(request);
    }
  }

  /** Stops what is in flight and closes what is open. */
  async end(): Promise<void> {
    for (const { controller } of this.#inFlight.splice(0)) controller.abort();
    const files = this.#served.files.takeAll();
    const closed = await Promise.allSettled(files.map((file) => file[Symbol.asyncDispose]()));
    for (const result of closed) {
      if (result.status === 'rejected') this.#report('release', result.reason);
    }
  }

  #dispatch(request: Request): void {
    const { unique } = request;
    const operation = operations.get(request.opcode);
    if (operation === undefined) {
      this.#refuse(unique, 'ENOSYS');
    } else if (request.body.length < operation.bodySize) {
      this.#refuse(unique, 'EINVAL');
    } else {
      const controller = new AbortController();
      const handle = request.opcode === opcode.read ? readU64(request.body, 0) : undefined;
      const inFlight = { unique, controller, handle };
      this.#inFlight.push(inFlight);
      void this.#perform(operation, request, inFlight);
    }
  }

  async #perform(operation: Operation, request: Request, inFlight: InFlight): Promise<void> {
    const { unique } = request;
    let answer: Answer;
    try {
      answer = await operation.run(this.#served, request, inFlight.controller.signal);
    } catch (error) {
      answer = this.#report(operation.name, error);
    }
    // Not in flight any more: an interrupt was faster.
    const awaited = this.#endFlight(inFlight);
    if (typeof answer === 'string') {
      if (awaited) this.#refuse(unique, answer);
    } else {
      const isTaken = awaited && this.#answer(unique, answer);
      answer.release?.();
      if (!isTaken) await this.#undo(operation, answer);
    }
  }

  async #undo(operation: Operation, reply: Reply): Promise<void> {
    try {
      await reply.undo?.();
    } catch (error) {
      this.#report(operation.name, error);
    }
  }

  #report(operation: string, error: unknown): ErrnoName {
    const known = toPbsfsError(error);
    // Looking for names that are not there is what file managers do all day.
    const expected =
      known.code === 'aborted' || (known.code === 'not-found' && operation === 'lookup');
    if (!expected) this.#reportFailure(operation, known);
    return errnoFor(operation, known.code);
  }

  /** False where nobody waits for it any more. */
  #answer(unique: number, { body }: Reply): boolean {
    let size = 0;
    for (const part of body) size += part.length;
    try {
      return this.#send([encodeReplyHeader(unique, size, 0), ...body]);
    } catch (error) {
      // A reply that the kernel does not take leaves the request open.
      this.#refuse(unique, this.#report('reply', error));
      return false;
    }
  }

  #refuse(unique: number, reason: ErrnoName): void {
    try {
      this.#send([encodeReplyHeader(unique, 0, errno[reason])]);
    } catch (error) {
      this.#report('reply', error);
    }
  }

  #init(request: Request): void {
    const { unique, body } = request;
    const reply = body.length < initRequestSize ? undefined : negotiate(body);
    if (reply === undefined) {
      this.#refuse(unique, 'EPROTO');
    } else {
      this.#answer(unique, { body: [reply] });
      this.#start();
    }
  }

  /** 0 u64 lookups */
  #forget({ nodeid, body }: Request): void {
    if (body.length >= 8) this.#served.inodes.forget(nodeid, readU64(body, 0));
  }

  /** 0 u32 count, padding, then for each 0 u64 nodeid, 8 u64 lookups */
  #batchForget({ body }: Request): void {
    for (let at = 8; at + 16 <= body.length; at += 16) {
      this.#served.inodes.forget(readU64(body, at), readU64(body, at + 8));
    }
  }

  /**
   * 0 u64 unique of the victim. It is answered at once, whatever it waits for: until then a killed program
   * cannot end. A victim that was not seen yet makes the kernel ask again (EAGAIN).
   */
  #interrupt({ unique, body }: Request): void {
    const wanted = body.length < 8 ? 0 : readU64(body, 0);
    const victim = this.#inFlight.find((one) => one.unique === wanted);
    if (victim === undefined) this.#refuse(unique, 'EAGAIN');
    else this.#giveUp(victim);
  }

  /**
   * 0 u64 handle. Somebody closed the file, or was killed. What the kernel reads ahead for it is never
   * interrupted, so it ends here; who waits for the same pages makes the kernel ask for them again.
   */
  #flush({ unique, body }: Request): void {
    const closed = body.length < 8 ? 0 : readU64(body, 0);
    for (const read of this.#inFlight.filter(({ handle }) => handle === closed)) this.#giveUp(read);
    this.#answer(unique, done);
  }

  /** Answers a request that nobody shall wait for any more. */
  #giveUp(victim: InFlight): void {
    this.#endFlight(victim);
    victim.controller.abort();
    this.#refuse(victim.unique, 'EINTR');
  }

  /** False where it was not in flight any more. */
  #endFlight(ended: InFlight): boolean {
    const at = this.#inFlight.indexOf(ended);
    if (at < 0) return false;
    const last = this.#inFlight.pop();
    if (last !== undefined && last !== ended) this.#inFlight[at] = last;
    return true;
  }
}
