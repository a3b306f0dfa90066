/**
 * Writes a directory of the tree, or one node of it, as one stream in some format. Entries are opened and small
 * files read while the ones before them are written. What fails is reported: an entry that cannot be opened is left
 * out, damaged ranges of a file become zeros, since its size has been announced.
 */
import { setMaxListeners } from 'node:events';
import { formatError, isPbsfsError, PbsfsError, toPbsfsError } from '../errors.ts';
import type { Directory, Node } from '../tree/node.ts';
import { HardLinks } from './hard-links.ts';
import { mapAhead } from './map-ahead.ts';
import { type Progress, TransferReport } from './report.ts';
import { type SelectedEntry, type Selection, selectEntries } from './selection.ts';
import { PreparedEntry, type StreamEntry, type StreamFormat } from './stream-entry.ts';
import { isFatal, walkTree } from './walk.ts';

export interface StreamOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}

/** Makes the writer of a format; what it has to leave out goes to the report. */
export type OpenFormat = (report: TransferReport) => StreamFormat;

/** Entries prepared ahead: 16 MiB of small files at most. */
const entriesAhead = 16;

/** @throws PbsfsError where the stream cannot be written; `unreachable`, `aborted`, … */
export async function streamTree(
  root: Directory,
  selection: Selection,
  openFormat: OpenFormat,
  options: StreamOptions = {},
): Promise<TransferReport> {
  const report = new TransferReport();
  const walk = walkTree(root, {
    ...(options.signal === undefined ? {} : { signal: options.signal }),
    onError: (path, error) => report.fail(path, error),
  });
  await new StreamRun(report, openFormat(report), options).run(selectEntries(walk, selection));
  return report;
}

/** One node that is no directory, under a name. @throws as `streamTree` */
export async function streamNode(
  node: Exclude<Node, Directory>,
  name: Buffer,
  openFormat: OpenFormat,
  options: StreamOptions = {},
): Promise<TransferReport> {
  const report = new TransferReport();
  const entries = (async function* (): AsyncGenerator<SelectedEntry> {
    yield { path: [name], target: [name], node };
  })();
  await new StreamRun(report, openFormat(report), options).run(entries);
  return report;
}

class StreamRun {
  readonly #report: TransferReport;
  readonly #format: StreamFormat;
  readonly #options: StreamOptions;
  readonly #signal: AbortSignal;
  /** Keeps the first path in the stream. */
  readonly #links = new HardLinks<readonly Buffer[]>();

  constructor(report: TransferReport, format: StreamFormat, options: StreamOptions) {
    this.#report = report;
    this.#format = format;
    this.#options = options;
    this.#signal = options.signal ?? new AbortController().signal;
    // One listener for each read on its way.
    setMaxListeners(0, this.#signal);
  }

  async run(entries: AsyncIterable<SelectedEntry>): Promise<void> {
    for await (const prepared of mapAhead(entries, entriesAhead, (entry) => this.#prepare(entry))) {
      await using entry = prepared;
      await this.#add(entry);
      this.#options.onProgress?.(this.#report);
    }
    await this.#format.end();
  }

  async #prepare(entry: SelectedEntry): Promise<PreparedEntry | undefined> {
    try {
      return await PreparedEntry.prepare(entry, this.#signal);
    } catch (error) {
      if (isFatal(error)) throw error;
      this.#report.fail(entry.path, toPbsfsError(error));
      return undefined;
    }
  }

  async #add(prepared: PreparedEntry): Promise<void> {
    const { selected, metadata, destination, size } = prepared;
    const { node, target } = selected;
    const entry: StreamEntry = {
      path: target,
      kind: node.kind,
      metadata,
      destination,
      size,
      content: () => this.#content(prepared),
    };
    const group = node.kind === 'file' ? this.#links.meet(node, metadata.attributes) : undefined;
    try {
      await this.#format.add(entry, group?.value);
    } catch (error) {
      if (!isPbsfsError(error, 'unsupported')) throw error;
      this.#report.fail(selected.path, error);
      return;
    }
    // A stream cannot go back to say that a file has more names.
    if (group?.isLate && group.value === undefined) {
      this.#report.lose('hard links (written as files of their own)');
    }
    if (group !== undefined) group.value ??= target;
    this.#report.entries += 1;
    if (node.kind === 'file') this.#report.files += 1;
  }

  async *#content(prepared: PreparedEntry): AsyncGenerator<Uint8Array> {
    const { path } = prepared.selected;
    const onDamage = (start: number, end: number, error: PbsfsError): void => {
      const message = `zeros in place of bytes ${start}…${end - 1}: ${formatError(error)}`;
      this.#report.fail(path, new PbsfsError(error.code, message, { cause: error }));
    };
    for await (const bytes of prepared.content(this.#signal, onDamage)) {
      yield bytes;
      this.#report.bytes += bytes.length;
      this.#options.onProgress?.(this.#report);
    }
  }
}
