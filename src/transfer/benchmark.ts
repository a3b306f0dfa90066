/**
 * How fast this machine does what reading a backup takes, and how fast a repository gives it: each measure is
 * the code that a restore runs, for about a second.
 *
 *   machine     SHA-256, zstd both ways, AES-256-GCM, and verifying a chunk (unpack and digest)
 *   repository  time to the first byte, stored chunks as they come, and verified chunks at several concurrencies
 */
import { availableParallelism } from 'node:os';
import { plainDigest } from '../formats/crypt-config.ts';

/** A figure of a measure that ran for a while. */
export interface Rate {
  /** Plain bytes a second. */
  readonly bytesPerSecond: number;
}

/** SHA-256 on all cores. */
export async function measureSha256(data: Uint8Array, seconds: number): Promise<Rate> {
  const startedAt = performance.now();
  const endAt = startedAt + seconds * 1000;
  let bytes = 0;
  const worker = async (): Promise<void> => {
    while (performance.now() < endAt) {
      await plainDigest(data);
      bytes += data.length;
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  return { bytesPerSecond: (bytes / (performance.now() - startedAt)) * 1000 };
}
