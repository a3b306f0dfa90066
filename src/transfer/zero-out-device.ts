/**
 * Zeros on a block device made by the device itself (`BLKZEROOUT`), which frees the space where it can. Node has
 * no ioctl, so blkdiscard(8) of util-linux does it. A plain discard would not do: what is read after it is up to
 * the device.
 */
import { execFile } from 'node:child_process';
import { PbsfsError } from '../errors.ts';
import { errnoCode } from './local-error.ts';

/** @throws PbsfsError `failed`, with what blkdiscard says; `unsupported` where it is not installed */
export function zeroOutDevice(path: string, start: number, end: number): Promise<void> {
  const range = ['--offset', String(start), '--length', String(end - start)];
  // --force: we hold the device open exclusively, which blkdiscard would otherwise ask for itself.
  const args = ['--force', '--zeroout', ...range, path];
  return new Promise((resolve, reject) => {
    execFile('blkdiscard', args, (error, _output, messages) => {
      if (error === null) resolve();
      else reject(asPbsfsError(error, messages));
    });
  });
}

function asPbsfsError(error: Error, messages: string): PbsfsError {
  if (errnoCode(error) === 'ENOENT') {
    return new PbsfsError('unsupported', 'blkdiscard is not installed', {
      hint: 'install util-linux, or leave out --discard',
      cause: error,
    });
  }
  return new PbsfsError('failed', `blkdiscard: ${messages.trim() || error.message}`, {
    hint: 'leave out --discard to write zeros',
    cause: error,
  });
}
