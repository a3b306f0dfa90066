/**
 * A program that reads 4 KiB at random offsets of a file, past the page cache, from several threads at once:
 *
 *   node random-reads.ts FILE BYTES READERS READS
 *
 * It first reads the first BYTES of the file, so that whoever serves them has them cached, then makes READS
 * reads there, and prints the seconds that those took.
 */
import { once } from 'node:events';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

interface Task {
  readonly file: string;
  readonly bytes: number;
  readonly reads: number;
  readonly seed: number;
}

const blockSize = 4096;
const warmUpStep = 1024 * 1024;

function openDirect(file: string): number {
  return openSync(file, constants.O_RDONLY | constants.O_DIRECT);
}

function readBlocks({ file, bytes, reads, seed }: Task): void {
  const fd = openDirect(file);
  const block = Buffer.alloc(blockSize);
  const blocks = bytes / blockSize;
  for (let i = 0, state = seed; i < reads; i++) {
    // MINSTD: the same offsets in every run.
    state = (state * 48_271) % 0x7fff_ffff;
    if (readSync(fd, block, 0, blockSize, (state % blocks) * blockSize) !== blockSize) {
      throw new Error('short read');
    }
  }
  closeSync(fd);
}

/** Resolves with the handle that keeps the cached chunks alive. */
function warmUp(file: string, bytes: number): number {
  const fd = openDirect(file);
  const buffer = Buffer.alloc(warmUpStep);
  for (let at = 0; at < bytes; at += warmUpStep) readSync(fd, buffer, 0, warmUpStep, at);
  return fd;
}

async function main(): Promise<void> {
  const [file = '', bytes, readers, reads] = process.argv.slice(2);
  const fd = warmUp(file, Number(bytes));
  const workers = Array.from({ length: Number(readers) }, (_, i) => {
    const task: Task = {
      file,
      bytes: Number(bytes),
      reads: Math.ceil(Number(reads) / Number(readers)),
      seed: i + 1,
    };
    return new Worker(new URL(import.meta.url), { workerData: task });
  });
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  const start = performance.now();
  for (const worker of workers) worker.postMessage('start');
  await Promise.all(workers.map((worker) => once(worker, 'exit')));
  console.log((performance.now() - start) / 1000);
  closeSync(fd);
}

if (isMainThread) {
  await main();
} else {
  parentPort?.once('message', () => {
    readBlocks(workerData as Task);
    process.exit(0);
  });
  parentPort?.postMessage('ready');
}
