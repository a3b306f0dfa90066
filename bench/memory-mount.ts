/**
 * Mounts one file of 2 GiB that is served from memory, so that what remains is the cost of FUSE itself: the
 * ceiling for every other figure of a mount.
 *
 *   node bench/memory-mount.ts DIR [watch|threads] [READS_IN_FLIGHT]
 *
 * Prints `mounted` when DIR answers, and ends when it is unmounted.
 */
import { createKernelDriver } from '../src/fuse/kernel/kernel-driver.ts';
import { loadLibc } from '../src/fuse/kernel/libc.ts';
import { readRequests, watchRequests } from '../src/fuse/kernel/request-source.ts';
import type { Attributes, Directory, File, OpenFile } from '../src/tree/node.ts';

const size = 2 * 1024 ** 3;
/** As PBS's fixed chunks. */
const chunkSize = 4 * 1024 ** 2;
/** Four chunks stand for all, so that memory bandwidth counts and memory does not. */
const chunks = Array.from({ length: 4 }, (_, index) => Buffer.alloc(chunkSize, index + 1));

function attributes(mode: number, bytes: number): Attributes {
  const blocks = bytes / 512;
  return { mode, uid: 0, gid: 0, nlink: 1, size: bytes, blocks, mtime: { seconds: 0, nanos: 0 } };
}

function readChunks(offset: number, length: number): Buffer[] {
  const slices: Buffer[] = [];
  const end = Math.min(offset + length, size);
  for (let at = offset; at < end; ) {
    const start = at % chunkSize;
    const stop = Math.min(chunkSize, start + end - at);
    const chunk = chunks[Math.floor(at / chunkSize) % chunks.length];
    if (chunk !== undefined) slices.push(chunk.subarray(start, stop));
    at += stop - start;
  }
  return slices;
}

const open: OpenFile = {
  size,
  dataSize: size,
  read: async (offset, length) => readChunks(offset, length),
  nextData: (offset) => offset,
  nextHole: () => size,
  [Symbol.asyncDispose]: async () => {},
};

const image: File = {
  kind: 'file',
  ino: 2,
  immutable: true,
  attributes: async () => attributes(0o100444, size),
  open: async () => open,
};

const name = Buffer.from('memory.img');
const root: Directory = {
  kind: 'directory',
  ino: 1,
  immutable: true,
  attributes: async () => attributes(0o040555, 0),
  lookup: async (wanted) => (wanted.equals(name) ? image : undefined),
  list: async () => [{ name, kind: 'file', ino: 2, node: image }],
};

const [directory, shape = 'watch', readsInFlight = '2'] = process.argv.slice(2);
if (directory === undefined) throw new Error('usage: memory-mount.ts DIR [watch|threads] [READS]');
const source =
  shape === 'watch' ? watchRequests(await loadLibc()) : readRequests(Number(readsInFlight));
const mount = await createKernelDriver(source).mount(root, directory, {
  source: 'memory',
  logger: (_, message) => console.error(message),
  capacity: async () => ({ total: size, used: size, available: 0 }),
});
process.once('SIGINT', () => void mount.unmount({ lazy: true }));
process.once('SIGTERM', () => void mount.unmount({ lazy: true }));
console.log('mounted');
await mount.done;
process.exit(0);
