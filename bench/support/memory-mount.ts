/**
 * A program that mounts one file, `image`, whose bytes come from memory: what the driver and the kernel cost
 * without anything behind them. `node memory-mount.ts DIR SIZE`; prints a line when the mount answers.
 */
import { createKernelDriver } from '../../src/fuse/kernel/kernel-driver.ts';
import { silentLogger } from '../../src/log.ts';
import type { Attributes, Directory, File, OpenFile } from '../../src/tree/node.ts';
import { chunkContent, chunkSize } from './image-content.ts';

const [mountPoint, sizeText] = process.argv.slice(2);
if (mountPoint === undefined) throw new Error('usage: memory-mount.ts DIR SIZE');
const size = Number(sizeText);
/** As many as the default cache of a mount. */
const chunks = Array.from({ length: 64 }, (_, i) => Buffer.from(chunkContent(i, chunkSize)));

function attributes(mode: number, bytes: number): Attributes {
  const mtime = { seconds: 0, nanos: 0 };
  return { mode, uid: 0, gid: 0, nlink: 1, size: bytes, blocks: Math.ceil(bytes / 512), mtime };
}

const open: OpenFile = {
  size,
  dataSize: size,
  read: async (offset, length) => {
    const slices: Uint8Array[] = [];
    const end = Math.min(offset + length, size);
    for (let at = offset; at < end; ) {
      const chunk = chunks[Math.floor(at / chunkSize) % chunks.length] ?? Buffer.alloc(0);
      const slice = chunk.subarray(at % chunkSize, (at % chunkSize) + end - at);
      slices.push(slice);
      at += slice.length;
    }
    return slices;
  },
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

const name = Buffer.from('image');
const root: Directory = {
  kind: 'directory',
  ino: 1,
  immutable: true,
  attributes: async () => attributes(0o40555, 0),
  lookup: async (wanted) => (wanted.equals(name) ? image : undefined),
  list: async () => [{ name, kind: 'file', ino: image.ino }],
};

const mount = await createKernelDriver().mount(root, mountPoint, {
  source: 'memory',
  logger: silentLogger,
  capacity: async () => ({ total: size, used: size, available: 0 }),
});
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => void mount.unmount({ lazy: true }));
}
console.log(`mounted memory at ${mountPoint}`);
await mount.done;
process.exit(0);
