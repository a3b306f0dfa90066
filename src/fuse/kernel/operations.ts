/**
 * The table of operations by opcode. What is not in it is answered ENOSYS, and the kernel then does
 * without: FSYNC (nothing to write), STATX, POLL, BMAP, locks. INIT, FORGET, INTERRUPT and FLUSH are the session's.
 */
import { opcode } from '../wire/opcode.ts';
import { opendir, readdir, readdirplus, releasedir } from './directory-operations.ts';
import { lseek, open, read, release } from './file-operations.ts';
import {
  access,
  getattr,
  getxattr,
  listxattr,
  lookup,
  readlink,
  statfs,
} from './node-operations.ts';
import type { Answer, Operation } from './operation.ts';

/** Programs ask whether a file is a terminal. */
const notTerminal = (): Answer => 'ENOTTY';
/** The kernel refuses writes to a read-only mount by itself; this is for a mount that was made otherwise. */
const readOnly = (): Answer => 'EROFS';

const writing = [
  'setattr',
  'symlink',
  'mknod',
  'mkdir',
  'unlink',
  'rmdir',
  'rename',
  'link',
  'write',
  'setxattr',
  'removexattr',
  'create',
  'fallocate',
  'rename2',
  'copyFileRange',
  'tmpfile',
] as const;

export const operations: ReadonlyMap<number, Operation> = new Map<number, Operation>([
  [opcode.lookup, { name: 'lookup', bodySize: 1, run: lookup }],
  [opcode.getattr, { name: 'getattr', bodySize: 0, run: getattr }],
  [opcode.readlink, { name: 'readlink', bodySize: 0, run: readlink }],
  [opcode.open, { name: 'open', bodySize: 8, run: open }],
  [opcode.read, { name: 'read', bodySize: 20, run: read }],
  [opcode.statfs, { name: 'statfs', bodySize: 0, run: statfs }],
  [opcode.release, { name: 'release', bodySize: 8, run: release }],
  [opcode.getxattr, { name: 'getxattr', bodySize: 8, run: getxattr }],
  [opcode.listxattr, { name: 'listxattr', bodySize: 8, run: listxattr }],
  [opcode.opendir, { name: 'opendir', bodySize: 0, run: opendir }],
  [opcode.readdir, { name: 'readdir', bodySize: 20, run: readdir }],
  [opcode.readdirplus, { name: 'readdir', bodySize: 20, run: readdirplus }],
  [opcode.releasedir, { name: 'releasedir', bodySize: 8, run: releasedir }],
  [opcode.access, { name: 'access', bodySize: 4, run: access }],
  [opcode.lseek, { name: 'lseek', bodySize: 20, run: lseek }],
  [opcode.ioctl, { name: 'ioctl', bodySize: 0, run: notTerminal }],
  ...writing.map((name): [number, Operation] => [
    opcode[name],
    { name, bodySize: 0, run: readOnly },
  ]),
]);
