/**
 * `pbsfs demo`: a datastore of real backups in a temporary directory, mounted, with commands to try. Where
 * this machine cannot mount, it says what is missing and shows the same through `ls` and `cat`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { formatError, isPbsfsError } from '../../errors.ts';
import { selectDriver } from '../../fuse/select-driver.ts';
import type { BackupTree } from '../../tree/backup-tree.ts';
import type { Directory } from '../../tree/node.ts';
import { formatTreeName } from '../../tree/tree-path.ts';
import type { CommandContext } from '../command-context.ts';
import { addHelpEnd } from '../common-options.ts';
import { type DemoDatastore, writeDemoDatastore } from '../demo-datastore.ts';
import { catchEndSignals, type EndSignals } from '../end-signals.ts';
import { openLogger } from '../logging.ts';
import { locateRepository } from '../open-repository.ts';
import { type OpenedTree, openTree } from '../open-tree.ts';
import { writeOut } from '../output.ts';
import { serveMount } from '../serve-mount.ts';

const program = fileURLToPath(new URL('../../../bin/pbsfs.js', import.meta.url));

/** The command for the program. */
export function createDemoCommand(context: CommandContext): Command {
  const command = new Command('demo')
    .description('make a small datastore of real backups, mount it, and show what to try')
    .argument('[dir]', 'mount point; a temporary directory when none is given');
  addHelpEnd(command, { repository: false, examples: 'pbsfs demo' });
  return command.action(async (directory?: string) => {
    using signals = catchEndSignals();
    const folder = await mkdtemp(join(tmpdir(), 'pbsfs-demo-'));
    try {
      await runDemo(folder, directory, context, signals);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
}

async function runDemo(
  folder: string,
  directory: string | undefined,
  context: CommandContext,
  signals: EndSignals,
): Promise<void> {
  const datastore = await writeDemoDatastore(folder);
  await writeOut(`A datastore with three backups of two virtual machines: ${datastore.path}\n`);
  const mountPoint = resolve(directory ?? join(folder, 'mnt'));
  if (directory === undefined) await mkdir(mountPoint);
  const options = {
    repository: datastore.path,
    keyfile: [datastore.keyFile],
    chunkDir: [],
    cacheChunks: 16,
    concurrency: 4,
    prefetch: 0,
  };
  const logger = openLogger({});
  const target = await locateRepository(options, context.ask, logger);
  await using opened = await openTree(target, options, context.ask, logger);
  const why = await mountDemo(opened, datastore.path, mountPoint, signals);
  if (why === undefined) return;
  await writeOut(`\nThis machine cannot mount it: ${why}\n`);
  await showWithoutMount(datastore);
  // With nobody at a terminal there is nobody to try anything.
  if (!process.stdout.isTTY) return;
  await writeOut('\nThe datastore stays until Ctrl-C.\n');
  const idle = setInterval(() => {}, 60_000);
  await signals.first;
  clearInterval(idle);
}

/** Serves until the end; or gives the reason why this machine cannot mount. */
async function mountDemo(
  { repository, tree }: OpenedTree,
  source: string,
  directory: string,
  signals: EndSignals,
): Promise<string | undefined> {
  let isUp = false;
  try {
    const driver = await selectDriver('auto');
    await serveMount(
      {
        driver,
        root: tree.root,
        directory,
        options: {
          source,
          capacity: (signal) => repository.status(signal),
          logger: openLogger({}),
        },
        onReady: async () => {
          isUp = true;
          await writeOut(`mounted ${source} at ${directory}\n\n${await describe(tree, directory)}`);
        },
      },
      signals,
    );
  } catch (error) {
    if (isUp || !isPbsfsError(error, 'unsupported', 'access-denied', 'failed')) throw error;
    return formatError(error);
  }
  return undefined;
}

async function describe(tree: BackupTree, directory: string): Promise<string> {
  const lines = await treeLines(tree.root, '');
  // The first file is one of the older snapshot.
  const [, , older] = lines[0]?.split('/') ?? [];
  const group = join(directory, 'vm/100');
  return `${lines.join('\n')}

Try in another terminal:
  ls -l ${group}/latest/
  head -n 3 ${group}/latest/drive-scsi0.img
  cmp ${group}/${older}/drive-scsi0.img ${group}/latest/drive-scsi0.img

Ctrl-C ends the demo and removes all of it.
`;
}

/** Every file below, one line each, with its size. */
async function treeLines(directory: Directory, prefix: string): Promise<string[]> {
  const lines: string[] = [];
  for (const { name } of await directory.list()) {
    const node = await directory.lookup(name);
    const path = prefix + formatTreeName(name);
    if (node === undefined) continue;
    if (node.kind === 'directory') lines.push(...(await treeLines(node, `${path}/`)));
    else if (node.kind === 'symlink')
      lines.push(`${path} -> ${formatTreeName(await node.target())}`);
    else lines.push(`${path}  ${(await node.attributes()).size} bytes`);
  }
  return lines;
}

/** The real commands with their real output. */
async function showWithoutMount({ path, keyFile }: DemoDatastore): Promise<void> {
  const commands = [
    ['ls', '-r', path, '-l', 'vm/100/latest'],
    ['cat', '-r', path, 'vm/100/latest/qemu-server.conf'],
    ['cat', '-r', path, '--keyfile', keyFile, 'vm/200/latest/qemu-server.conf'],
  ];
  for (const args of commands) {
    await writeOut(`\n$ node ${relative(process.cwd(), program)} ${args.join(' ')}\n`);
    const child = spawn(process.execPath, [program, ...args], { stdio: 'inherit' });
    await once(child, 'exit');
  }
}
