/**
 * Keeps the heap of a mount small. V8 lets new objects take up to 128 MiB before it looks through them, and the old
 * ones double before it looks through those: good for a program that is its heap. Ours holds an object for each file
 * that the kernel remembers, beside a cache that is what the memory is for.
 */
import { setFlagsFromString } from 'node:v8';

/** By how much old objects may grow between two collections, at least some MiB. */
const growthPercent = 20;

/** To be called once the program is loaded: the room for new objects stays as large as that has made it. */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString(`--heap-growing-percent=${growthPercent}`);
}
