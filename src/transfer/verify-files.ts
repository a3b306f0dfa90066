/**
 * Which files of a pxar archive lie in bad chunks. The archive is passed through once more for that, its metadata
 * alone; what no file covers is metadata, which for a split archive is a stream of its own.
 */
import { type ChunkResources, createChunkReader } from '../archives/image.ts';
import { openPxar } from '../archives/pxar/pxar-archive.ts';
import type { SnapshotArchives } from '../archives/snapshot-archives.ts';
import { isPbsfsError } from '../errors.ts';
import type { Archive } from '../formats/archive-name.ts';
import type { ChunkIndex } from '../formats/chunk-index.ts';
import type { PxarEntry, PxarFile, PxarLeaf } from '../formats/pxar/entry.ts';
import { itemHeaderSize } from '../formats/pxar/item.ts';
import { formatTreePath } from '../tree/tree-path.ts';
import type { Finding } from './verify-chunks.ts';
import { isFatal } from './walk.ts';

/** Bad chunks of one stream, by their number in its index. */
export interface BadStream {
  readonly index: ChunkIndex;
  readonly findings: ReadonlyMap<number, Finding>;
}

/**
 * Adds the files to the findings.
 * @param bad by server name; streams without bad chunks may be missing.
 * @throws PbsfsError `unreachable`, `aborted`, `stale`, …, but nothing for further damage
 */
export async function nameBadFiles(
  archives: SnapshotArchives,
  archive: Archive,
  bad: ReadonlyMap<string, BadStream>,
  resources: ChunkResources,
  signal: AbortSignal,
): Promise<void> {
  const filename = archive.split ? archive.metadata : archive.filename;
  const metadata = bad.get(filename);
  const payload = archive.split ? bad.get(archive.payload) : undefined;
  if (!/\.m?pxar\.didx$/.test(filename) || (metadata ?? payload) === undefined) return;
  const streams = {
    metadata: metadata && new StreamHits(metadata),
    payload: payload && new StreamHits(payload),
  };
  try {
    const opened = await archives.openIndex(filename, signal);
    const reader = createChunkReader(archives, filename, opened, resources);
    const pxar = await openPxar(reader, undefined, {}, signal);
    const hits = new Map<number, readonly Finding[]>();
    for await (const step of pxar.walk(pxar.root, signal)) {
      if (step.step === 'leaf') addHits(step.entry, streams, hits);
    }
  } catch (error) {
    // Damage that is told already keeps the names from being read.
    if (isFatal(error) || isPbsfsError(error, 'stale')) throw error;
  }
  streams.metadata?.markMetadata();
}

/** @param hits findings of the files so far, by position: a hard link is another name of one of them. */
function addHits(
  entry: PxarLeaf,
  streams: Readonly<Record<PxarFile['stream'], StreamHits | undefined>>,
  hits: Map<number, readonly Finding[]>,
): void {
  let found: readonly Finding[] = [];
  if (entry.kind === 'hardlink') {
    found = hits.get(entry.targetPosition) ?? [];
  } else if (entry.kind === 'file') {
    found = streams[entry.stream]?.cover(entry) ?? [];
    if (found.length > 0) hits.set(entry.position, found);
  }
  for (const finding of found) finding.files.add(pathOf(entry));
}

function pathOf(entry: PxarEntry): string {
  const names: Buffer[] = [];
  for (let at = entry; at.parent !== undefined; at = at.parent) names.push(at.name);
  return formatTreePath(names.reverse());
}

class StreamHits {
  readonly #index: ChunkIndex;
  readonly #chunks: readonly number[];
  readonly #findings: ReadonlyMap<number, Finding>;
  /** Bytes of files, by bad chunk. */
  readonly #covered = new Map<number, number>();

  constructor({ index, findings }: BadStream) {
    this.#index = index;
    this.#findings = findings;
    this.#chunks = [...findings.keys()].sort((a, b) => a - b);
  }

  /** The findings that a file has bytes in. The header of its content is as needed as the content. */
  cover({ payloadPosition: start, size }: PxarFile): readonly Finding[] {
    const end = Math.min(start + itemHeaderSize + size, this.#index.size);
    if (size === 0 || start >= end) return [];
    const found: Finding[] = [];
    for (let at = this.#firstFrom(this.#index.chunkAt(start)); at < this.#chunks.length; at++) {
      const chunk = this.#chunks[at] ?? 0;
      const finding = this.#findings.get(chunk);
      if (finding === undefined || this.#index.chunkStart(chunk) >= end) break;
      const from = Math.max(start, this.#index.chunkStart(chunk));
      const bytes = Math.min(end, this.#index.chunkEnd(chunk)) - from;
      this.#covered.set(chunk, (this.#covered.get(chunk) ?? 0) + bytes);
      found.push(finding);
    }
    return found;
  }

  /** Marks the findings that hold more than files. */
  markMetadata(): void {
    for (const [chunk, finding] of this.#findings) {
      const length = this.#index.chunkEnd(chunk) - this.#index.chunkStart(chunk);
      if ((this.#covered.get(chunk) ?? 0) < length) finding.hitsMetadata = true;
    }
  }

  /** Position of the first bad chunk that is `chunk` or later. */
  #firstFrom(chunk: number): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#chunks[middle] ?? 0) < chunk) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
