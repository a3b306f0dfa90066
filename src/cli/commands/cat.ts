/**
 * `pbsfs cat`: the bytes of files, to standard output. All paths are resolved before the first byte, and the
 * first range that cannot be verified ends the output: what follows would be at the wrong place. With
 * `--on-error zero` it is replaced by zeros, named, and the exit code says so.
 */
import { Command, Option } from 'commander';
import { isPbsfsError, PbsfsError, toPbsfsError } from '../../errors.ts';
import { borrow, type Loan } from '../../read-at.ts';
import { errnoCode } from '../../transfer/local-error.ts';
import { PipeTarget } from '../../transfer/pipe-target.ts';
import type { BackupTree } from '../../tree/backup-tree.ts';
import type { File, OpenFile } from '../../tree/node.ts';
import { resolvePath } from '../../tree/resolve.ts';
import { formatTreePath, parseTreePath } from '../../tree/tree-path.ts';
import type { CommandContext } from '../command-context.ts';
import { addHelpEnd, addReadOptions, type ReadOptions } from '../common-options.ts';
import { withTree } from '../open-tree.ts';
import { atPath, OutputClosed } from '../output.ts';

interface CatOptions extends ReadOptions {
  readonly onError: 'eio' | 'zero';
}

/** The chunk size of images: each step of theirs is one whole chunk. */
const stepBytes = 4 * 1024 * 1024;
/** Steps that are read while one is written. */
const stepsAhead = 4;
const defaultCacheChunks = 16;

/** The command for the program. */
export function createCatCommand(context: CommandContext): Command {
  const command = new Command('cat')
    .description('write files to standard output')
    .argument('<path...>', 'paths as in the mount; a group alone means its newest snapshot');
  addReadOptions(command, defaultCacheChunks).addOption(
    new Option('--on-error <what>', 'for bytes that cannot be verified: stop, or zeros and exit 6')
      .choices(['eio', 'zero'])
      .default('eio'),
  );
  addHelpEnd(command, {
    repository: true,
    examples: `
      pbsfs cat -r /mnt/datastore vm/100/latest/qemu-server.conf
      pbsfs cat -r /mnt/datastore vm/100/drive-scsi0.img | dd of=/dev/vg0/restored bs=4M`,
  });
  return command.action(async (paths: string[], options: CatOptions) => {
    await withTree(options, context, async (tree) => {
      const files = [];
      for (const path of paths) files.push(await resolveFile(tree, path));
      await using output = PipeTarget.standardOutput();
      for (const file of files) await copy(file, output);
    });
  });
}

interface Named {
  readonly path: readonly Buffer[];
  readonly node: File;
}

async function resolveFile(tree: BackupTree, text: string): Promise<Named> {
  const { node, path } = await resolvePath(tree, parseTreePath(text), { group: 'newest' });
  if (node.kind === 'file') return { path, node };
  const [code, what] =
    node.kind === 'directory'
      ? (['is-directory', 'is a directory'] as const)
      : (['unsupported', `is no file but a ${node.kind}`] as const);
  throw new PbsfsError(code, what, {
    context: { path: formatTreePath(path) },
    hint: `'pbsfs ls ${text}' lists it`,
  });
}

async function copy({ path, node }: Named, output: PipeTarget): Promise<void> {
  try {
    await using file = await node.open();
    for await (using step of readAhead(file)) {
      for (const slice of step.slices) await output.write(slice);
    }
  } catch (error) {
    if (!isPbsfsError(error)) throw error;
    throw errnoCode(error.cause) === 'EPIPE' ? new OutputClosed() : atPath(error, path);
  }
}

/** The file in steps, in order, some of them on their way at once. */
async function* readAhead(file: OpenFile): AsyncGenerator<Loan> {
  const abort = new AbortController();
  const waiting: Promise<Loan>[] = [];
  let next = 0;
  try {
    for (let at = 0; at < file.size; at += stepBytes) {
      for (; next < file.size && waiting.length < stepsAhead; next += stepBytes) {
        const read = borrow(file, next, stepBytes, abort.signal);
        // Awaited in its turn; a failure before that is not unhandled.
        read.catch(() => {});
        waiting.push(read);
      }
      yield* withPrefix(file, at, waiting.shift());
    }
  } finally {
    abort.abort();
  }
}

/** One step; where it fails, what of it stands before the bad range comes first. */
async function* withPrefix(
  file: OpenFile,
  at: number,
  step: Promise<Loan> | undefined,
): AsyncGenerator<Loan> {
  try {
    if (step !== undefined) yield await step;
  } catch (error) {
    const { offset = 0 } = toPbsfsError(error).context;
    if (offset > at && offset < at + stepBytes) yield await borrow(file, at, offset - at);
    throw error;
  }
}
