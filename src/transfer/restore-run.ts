/**
 * One restore: takes entries in the order of a walk and makes them. Directories are made as they come, everything
 * else by jobs that run behind, and each directory gets its metadata when all in it is complete.
 */
import { setMaxListeners } from 'node:events';
import type { File, Node } from '../tree/node.ts';
import { formatTreePath } from '../tree/tree-path.ts';
import { HardLinks } from './hard-links.ts';
import { JobPool } from './job-pool.ts';
import { LateLinks, type LateName } from './late-links.ts';
import { isDiskFull, toLocalError } from './local-error.ts';
import { type Metadata, MetadataWriter, readMetadata } from './metadata.ts';
import { type Existing, type LinkSource, NodeWriter, type Target } from './node-writer.ts';
import type { Progress, TransferReport } from './report.ts';
import { RestoredDirectory } from './restored-directory.ts';
import type { SelectedEntry } from './selection.ts';
import type { Syscalls } from './syscalls.ts';
import type { TargetDirectory } from './target-directory.ts';
import { isFatal } from './walk.ts';

export interface RestoreOptions {
  readonly existing: Existing;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
  /** Entries that are made at once. */
  readonly jobs?: number;
}

/** Small files wait for chunks and for the disk; more at once gains nothing and costs memory. */
const defaultJobs = 16;

type Leaf = Exclude<Node, { kind: 'directory' }>;

export class RestoreRun {
  readonly #root: TargetDirectory;
  readonly #report: TransferReport;
  readonly #options: RestoreOptions;
  readonly #metadata: MetadataWriter;
  readonly #writer: NodeWriter;
  readonly #pool: JobPool;
  readonly #links = new HardLinks<Promise<LinkSource | undefined>>();
  readonly #late = new LateLinks();
  /** Fires when one job has ended the run. */
  readonly #abort = new AbortController();
  readonly #signal: AbortSignal;
  /** Directories that the walk is in, the target first. */
  readonly #stack: RestoredDirectory[];

  /** @param root is closed by the run. */
  constructor(
    root: TargetDirectory,
    report: TransferReport,
    syscalls: Syscalls | undefined,
    options: RestoreOptions,
  ) {
    this.#root = root;
    this.#report = report;
    this.#options = options;
    this.#pool = new JobPool(options.jobs ?? defaultJobs);
    this.#signal = AbortSignal.any([
      this.#abort.signal,
      ...(options.signal === undefined ? [] : [options.signal]),
    ]);
    // One listener for each read on its way.
    setMaxListeners(0, this.#signal);
    this.#metadata = new MetadataWriter(syscalls, report);
    this.#stack = [this.#track([], root, undefined)];
    this.#writer = new NodeWriter({
      root,
      existing: options.existing,
      syscalls,
      metadata: this.#metadata,
      report,
      signal: this.#signal,
      onBytes: (bytes) => {
        report.bytes += bytes;
        options.onProgress?.(report);
      },
    });
  }

  /** @throws PbsfsError for what ends the run; everything else is in the report. */
  async restore(entry: SelectedEntry): Promise<void> {
    const { node, path, target } = entry;
    this.#leaveTo(Math.max(target.length, 1));
    const parent = this.#stack.at(-1);
    const name = target.at(-1);
    if (parent === undefined || name === undefined) {
      await this.#attempt(path, () => this.#enterRoot(node));
    } else if (node.kind === 'directory') {
      const made = await this.#attempt(path, () => this.#enter(entry, name, parent));
      this.#stack.push(made ?? this.#track(path, undefined, parent));
    } else if (parent.directory !== undefined) {
      const place = { directory: parent.directory, name, path: target };
      await this.#add(path, node, place, parent);
    }
  }

  /**
   * Waits until all is complete.
   * @param walk the same entries once more.
   * @throws as `restore`
   */
  async end(walk: () => AsyncIterable<SelectedEntry>): Promise<void> {
    await this.#pool.end();
    for await (const { names, earlier } of this.#late.resolve(walk)) {
      await this.#makeLate(names, earlier);
    }
    this.#close();
    await this.#pool.end();
  }

  /** Stops what runs and closes everything; what is complete stays. */
  async abandon(reason: unknown): Promise<void> {
    this.#abort.abort(reason);
    for (const directory of this.#stack) directory.metadata = undefined;
    this.#close();
    await this.#pool.end().catch(() => {});
  }

  #close(): void {
    this.#late.release();
    this.#leaveTo(0);
  }

  #leaveTo(depth: number): void {
    while (this.#stack.length > depth) this.#stack.pop()?.release();
  }

  async #enterRoot(node: Node): Promise<void> {
    const [target] = this.#stack;
    const known = await readMetadata(node, true, this.#signal);
    if (target !== undefined && this.#takesMetadata(this.#root)) target.metadata = known;
    this.#report.entries += 1;
  }

  async #enter(
    { node, path }: SelectedEntry,
    name: Buffer,
    parent: RestoredDirectory,
  ): Promise<RestoredDirectory> {
    // A failure above stands for all below.
    if (parent.directory === undefined) return this.#track(path, undefined, parent);
    const known = await readMetadata(node, false, this.#signal);
    const directory = parent.directory.makeChild(name, this.#options.existing !== 'refuse');
    const entered = this.#track(path, directory, parent);
    if (this.#takesMetadata(directory)) {
      entered.metadata = known;
      this.#metadata.begin(directory.fd, known.attributes);
    }
    this.#report.entries += 1;
    return entered;
  }

  /** A directory that was there and not empty belongs to its owner, unless things may be replaced. */
  #takesMetadata(directory: TargetDirectory): boolean {
    return directory.isNew || this.#options.existing !== 'refuse';
  }

  #track(
    path: readonly Buffer[],
    directory: TargetDirectory | undefined,
    parent: RestoredDirectory | undefined,
  ): RestoredDirectory {
    return new RestoredDirectory(directory, parent, (finished, known) => {
      const { fd } = finished;
      try {
        if (known === undefined) {
          finished.openUp();
          return;
        }
        this.#metadata.apply({ fd }, known);
        this.#metadata.end(fd, known.attributes);
      } catch (error) {
        this.#report.fail(path, toLocalError(error));
      }
    });
  }

  async #add(
    path: readonly Buffer[],
    node: Leaf,
    target: Target,
    parent: RestoredDirectory,
  ): Promise<void> {
    const known = await this.#attempt(path, () => readMetadata(node, false, this.#signal));
    if (known === undefined) return;
    const group = node.kind === 'file' ? this.#links.meet(node, known.attributes) : undefined;
    if (group?.isLate && node.kind === 'file') {
      this.#late.add({ path, node, known, target, parent });
      return;
    }
    // Each name waits for the one before it, which has been begun: it links to that, or takes its place.
    const earlier = group?.value;
    const made = Promise.withResolvers<LinkSource | undefined>();
    if (group !== undefined) group.value = made.promise;
    await this.#pool.add(async () => {
      parent.retain();
      try {
        const source = await earlier;
        made.resolve(await this.#attempt(path, () => this.#make(node, known, target, source)));
      } finally {
        made.resolve(undefined);
        parent.release();
      }
    });
  }

  /** Names of one file, whose earlier name may have been restored as `earlier`. */
  async #makeLate(
    names: readonly LateName[],
    earlier: readonly Buffer[] | undefined,
  ): Promise<void> {
    let source: LinkSource | undefined;
    for (const { path, node, known, target } of names) {
      source ??= earlier && this.#writer.findRestored(earlier, known.attributes);
      source = await this.#attempt(path, () => this.#make(node, known, target, source));
    }
  }

  async #make(
    node: Leaf,
    known: Metadata,
    target: Target,
    earlier: LinkSource | undefined,
  ): Promise<LinkSource | undefined> {
    let source: LinkSource | undefined;
    if (node.kind === 'symlink') await this.#writer.writeSymlink(node, known, target);
    else if (node.kind !== 'file') this.#writer.writeSpecial(node, known, target);
    else source = await this.#makeFile(node, known, target, earlier);
    this.#report.entries += 1;
    this.#options.onProgress?.(this.#report);
    return source;
  }

  async #makeFile(
    file: File,
    known: Metadata,
    target: Target,
    earlier: LinkSource | undefined,
  ): Promise<LinkSource | undefined> {
    const isLinked = earlier !== undefined && this.#writer.linkFile(earlier, target);
    const source = isLinked ? earlier : await this.#writer.writeFile(file, known, target);
    this.#report.files += 1;
    return source;
  }

  /** Undefined, and reported, where it fails and others need not. */
  async #attempt<T>(path: readonly Buffer[], action: () => Promise<T>): Promise<T | undefined> {
    try {
      return await action();
    } catch (error) {
      const known = toLocalError(error);
      if (!isDiskFull(error) && !isFatal(known)) {
        this.#report.fail(path, known);
        return undefined;
      }
      const ending = known.at({ path: formatTreePath(path) });
      this.#abort.abort(ending);
      throw ending;
    }
  }
}
