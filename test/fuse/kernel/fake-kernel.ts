/** The other side of the protocol for tests, without a mount: encodes requests, decodes replies. */
import type { SessionOptions } from '../../../src/fuse/kernel/session.ts';
import { Session } from '../../../src/fuse/kernel/session.ts';
import type { Directory } from '../../../src/tree/node.ts';

export interface KernelReply {
  readonly error: number;
  readonly body: Buffer;
  /** Pieces of the one write. */
  readonly parts: readonly Uint8Array[];
}

/** 64-bit fields as BigInt, 32-bit as number, bytes as they are. */
export type Field = bigint | number | Uint8Array;

export function encodeFields(...fields: readonly Field[]): Buffer {
  const parts = fields.map((field) => {
    if (field instanceof Uint8Array) return field;
    const view = new DataView(new ArrayBuffer(typeof field === 'bigint' ? 8 : 4));
    if (typeof field === 'bigint') view.setBigUint64(0, field, true);
    else view.setUint32(0, field, true);
    return new Uint8Array(view.buffer);
  });
  return Buffer.concat(parts);
}

function encodeRequest(
  opcode: number,
  unique: bigint,
  nodeid: bigint,
  ...fields: readonly Field[]
): Buffer {
  const body = encodeFields(...fields);
  return encodeFields(40 + body.length, opcode, unique, nodeid, 0, 0, 4242, 0, body);
}

/** A name as it stands in a request. */
export function nul(name: string | Buffer): Buffer {
  return Buffer.concat([Buffer.from(name), Buffer.of(0)]);
}

export class FakeKernel {
  readonly session: Session;
  readonly log: string[] = [];
  readonly replies = new Map<bigint, KernelReply>();
  /** What becomes of a reply: taken, not awaited any more, or refused as malformed. */
  takes: 'all' | 'none' | 'errors only' = 'all';
  #unique = 0n;

  constructor(root: Directory, options: Partial<SessionOptions> = {}) {
    this.session = new Session(root, (parts) => this.#take(parts), {
      logger: (level, message) => this.log.push(`${level} ${message}`),
      capacity: async () => ({ total: 1 << 30, used: 1 << 28, available: 1 << 29 }),
      ...options,
    });
  }

  #take(parts: readonly Uint8Array[]): boolean {
    const bytes = Buffer.concat(parts);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const error = Math.abs(view.getInt32(4, true));
    if (view.getUint32(0, true) !== bytes.length) throw new Error('wrong length in a reply');
    if (this.takes === 'none') return false;
    if (this.takes === 'errors only' && error === 0) throw new Error('EINVAL');
    const unique = view.getBigUint64(8, true);
    if (this.replies.has(unique)) throw new Error('answered twice');
    this.replies.set(unique, { error, body: bytes.subarray(16), parts });
    return true;
  }

  /** Sends a request, from a buffer that is overwritten at once as the real one would be. */
  send(opcode: number, nodeid: bigint, ...fields: readonly Field[]): bigint {
    this.#unique += 2n;
    const bytes = encodeRequest(opcode, this.#unique, nodeid, ...fields);
    this.session.receive(bytes);
    bytes.fill(0xff);
    return this.#unique;
  }

  /** Sends a request and waits for its reply. */
  async call(opcode: number, nodeid: bigint, ...fields: readonly Field[]): Promise<KernelReply> {
    const unique = this.send(opcode, nodeid, ...fields);
    for (let turn = 0; turn < 1000; turn++) {
      const reply = this.replies.get(unique);
      if (reply !== undefined) return reply;
      await new Promise(setImmediate);
    }
    throw new Error(`no reply to opcode ${opcode}`);
  }

  /** The nodeid of a name. */
  async lookup(parent: bigint, name: string): Promise<bigint> {
    const { error, body } = await this.call(1, parent, nul(name));
    if (error !== 0) throw new Error(`lookup of ${name} gave ${error}`);
    return body.readBigUInt64LE(0);
  }

  /** The handle of an opened file. */
  async open(nodeid: bigint): Promise<bigint> {
    return (await this.call(14, nodeid, 0, 0)).body.readBigUInt64LE(0);
  }
}

/** Lets everything that is ready to run do so. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
}
