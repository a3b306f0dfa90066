/**
 * One request as the kernel hands it out: a header, then a body whose shape the opcode tells.
 *
 *    0 u32 length of the whole     8 u64 unique   24 u32 uid, gid, pid
 *    4 u32 opcode                 16 u64 nodeid   36 u16 extensions, u16 padding
 *
 * Source: `fuse_in_header` of `linux/fuse.h`.
 */
import { readU64 } from './u64.ts';

const requestHeaderSize = 40;

export interface Request {
  readonly opcode: number;
  /** Names the request in its reply, and in an interrupt. */
  readonly unique: number;
  readonly nodeid: number;
  /** A view of the receive buffer: only good until the next request is read. */
  readonly body: Buffer;
}

/** Undefined for bytes that cannot be a request: then there is nothing to reply to either. */
export function decodeRequest(bytes: Buffer): Request | undefined {
  if (bytes.length < requestHeaderSize || bytes.readUInt32LE(0) !== bytes.length) return undefined;
  return {
    opcode: bytes.readUInt32LE(4),
    unique: readU64(bytes, 8),
    nodeid: readU64(bytes, 16),
    body: bytes.subarray(requestHeaderSize),
  };
}

/** The bytes of `body` from `offset` to the NUL that ends them, copied; undefined without that NUL. */
export function decodeName(body: Buffer, offset: number): Buffer | undefined {
  const end = body.indexOf(0, offset);
  return end < 0 ? undefined : Buffer.from(body.subarray(offset, end));
}
