/** Attributes of the nodes that pbsfs makes up itself: read-only, owned by root, without set-id bits. */
import type { Attributes, Time } from './node.ts';

const directoryMode = 0o40555;
const fileMode = 0o100444;
const symlinkMode = 0o120777;
/** Unit of `st_blocks` whatever the block size. */
const blockBytes = 512;

export function timeOfSeconds(seconds: number): Time {
  return { seconds, nanos: 0 };
}

export function directoryAttributes(mtime: Time): Attributes {
  return { mode: directoryMode, uid: 0, gid: 0, nlink: 2, size: 0, blocks: 0, mtime };
}

/** @param dataSize bytes that are not in holes. */
export function fileAttributes(size: number, dataSize: number, mtime: Time): Attributes {
  const blocks = Math.ceil(dataSize / blockBytes);
  return { mode: fileMode, uid: 0, gid: 0, nlink: 1, size, blocks, mtime };
}

export function symlinkAttributes(target: Uint8Array, mtime: Time): Attributes {
  return { mode: symlinkMode, uid: 0, gid: 0, nlink: 1, size: target.length, blocks: 0, mtime };
}
