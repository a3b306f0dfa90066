/** Restores a directory, or one entry, as one stream: to standard output, a pipe or a file. */
import { statSync } from 'node:fs';
import { PbsfsError } from '../errors.ts';
import { locally, toLocalError } from '../transfer/local-error.ts';
import { PipeTarget } from '../transfer/pipe-target.ts';
import { PxarFormat } from '../transfer/pxar-format.ts';
import type { TransferReport } from '../transfer/report.ts';
import { restoreImage } from '../transfer/restore-image.ts';
import type { Sink } from '../transfer/sink.ts';
import { type OpenFormat, streamNode, streamTree } from '../transfer/stream-tree.ts';
import { TarFormat } from '../transfer/tar-format.ts';
import { ZipFormat } from '../transfer/zip-format.ts';
import type { OpenFile } from '../tree/node.ts';
import { PxarRoot } from '../tree/pxar-root.ts';
import { formatTreePath } from '../tree/tree-path.ts';
import { formatRate } from './progress-line.ts';
import { type RestoreJob, selectsAll } from './restore-job.ts';
import { printOutcome } from './restore-outcome.ts';

export type StreamFormatName = 'tar' | 'zip' | 'pxar';

const formats: Readonly<Record<StreamFormatName, (sink: Sink) => OpenFormat>> = {
  tar: (sink) => (report) => new TarFormat(sink, report),
  zip: (sink) => (report) => new ZipFormat(sink, report),
  pxar: (sink) => () => new PxarFormat(sink),
};

/** @throws PbsfsError for what ends the stream; other failures are printed and set the exit code. */
export async function restoreStream(job: RestoreJob, format: StreamFormatName): Promise<void> {
  if (format === 'pxar' && job.found.node.kind !== 'directory') {
    throw new PbsfsError('usage', 'a pxar archive holds a directory, and this is none', {
      context: { path: formatTreePath(job.found.path) },
    });
  }
  const startedAt = performance.now();
  await using stored = format === 'pxar' ? await openStored(job) : undefined;
  await using output = await openOutput(job);
  if (stored !== undefined) {
    await copyStored(job, stored, output, startedAt);
    return;
  }
  const report = await streamEntries(job, formats[format](output), startedAt);
  job.progress[Symbol.dispose]();
  printOutcome(report, 'wrote', startedAt, job.logger);
}

async function streamEntries(
  { found, selection, signal, progress }: RestoreJob,
  openFormat: OpenFormat,
  startedAt: number,
): Promise<TransferReport> {
  const options = {
    signal,
    onProgress: ({ entries, bytes }: { entries: number; bytes: number }) =>
      progress.update(() => `${entries} entries, ${formatRate(bytes, startedAt)}`),
  };
  const { node, path } = found;
  return node.kind === 'directory'
    ? await streamTree(node, selection, openFormat, options)
    : await streamNode(node, path.at(-1) ?? Buffer.from('file'), openFormat, options);
}

/** A whole archive that is stored in this form goes out as it is. */
async function openStored(job: RestoreJob): Promise<OpenFile | undefined> {
  const { node } = job.found;
  return node instanceof PxarRoot && selectsAll(job)
    ? await node.openStored(job.signal)
    : undefined;
}

async function copyStored(
  { concurrency, signal, progress, logger }: RestoreJob,
  stored: OpenFile,
  output: PipeTarget,
  startedAt: number,
): Promise<void> {
  const { bytes } = await restoreImage(stored, output, {
    concurrency,
    signal,
    onProgress: (done) => progress.update(() => formatRate(done.bytes, startedAt)),
  });
  progress[Symbol.dispose]();
  logger('info', `wrote ${formatRate(bytes, startedAt)}`);
}

/** A regular file that is there is only replaced where that is asked for; pipes and devices are written to. */
async function openOutput({ target, existing }: RestoreJob): Promise<PipeTarget> {
  if (target === '-') return PipeTarget.standardOutput();
  const found = locally(target, () => statSync(target, { throwIfNoEntry: false }));
  if (found?.isDirectory()) {
    throw new PbsfsError('is-directory', 'is a directory', {
      context: { path: target },
      hint: 'name a file for the stream, or leave --format out',
    });
  }
  if (found?.isFile() && existing !== 'replace') {
    throw new PbsfsError('failed', 'exists already', {
      context: { path: target },
      hint: '--overwrite replaces it',
    });
  }
  try {
    return await PipeTarget.open(target);
  } catch (error) {
    throw toLocalError(error).at({ path: target });
  }
}
