/** Restores one run of bytes: an image or a blob to a file, a device or a pipe; any file to standard output. */
import { openImageTarget } from '../transfer/image-target.ts';
import {
  formatRestoredImage,
  type ImageProgress,
  restoreImage,
} from '../transfer/restore-image.ts';
import type { File } from '../tree/node.ts';
import { atPath, reportFailure } from './output.ts';
import { formatBytes, formatRate } from './progress-line.ts';
import type { RestoreJob } from './restore-job.ts';

/**
 * Ranges that are damaged are named, and zeros in a file or on a device; a pipe ends at the first.
 * @param path in the tree, for messages.
 * @param target path, or `-`.
 */
export async function restoreBytes(
  job: RestoreJob,
  node: File,
  path: readonly Buffer[],
  target: string,
): Promise<void> {
  const { existing, skipZero, discard, concurrency, budget, signal } = job;
  const resume = existing === 'resume';
  await using file = await node.open(signal, { readAhead: false });
  await using image = await openImageTarget(target, file.size, {
    resume,
    overwrite: existing === 'replace',
    skipZero,
    discard,
  });
  const startedAt = performance.now();
  const restored = await restoreImage(file, image, {
    concurrency,
    budget,
    resume,
    signal,
    onProgress: (progress) =>
      job.progress.update(
        () => formatProgress(progress, startedAt),
        progress.bytes / progress.totalBytes,
      ),
  });
  job.progress[Symbol.dispose]();
  for (const error of restored.damage) reportFailure('restore', atPath(error, path));
  if (!job.quiet) process.stderr.write(`${formatRestoredImage(restored)}\n`);
}

function formatProgress(
  { bytes, totalBytes, keptBytes }: ImageProgress,
  startedAt: number,
): string {
  const percent = totalBytes === 0 ? 100 : Math.floor((bytes / totalBytes) * 100);
  const seconds = (performance.now() - startedAt) / 1000;
  const left =
    bytes === 0 ? '' : `, ${formatSeconds((seconds * (totalBytes - bytes)) / bytes)} left`;
  const kept = keptBytes === 0 ? '' : `, ${formatBytes(keptBytes)} kept`;
  return `${percent} % of ${formatBytes(totalBytes)}: ${formatRate(bytes, startedAt)}${kept}${left}`;
}

/** `1:02:03`, `4:05` */
function formatSeconds(seconds: number): string {
  const whole = Math.ceil(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const shown = parts[0] === 0 ? parts.slice(1) : parts;
  return shown.map((part, i) => (i === 0 ? `${part}` : `${part}`.padStart(2, '0'))).join(':');
}
