/** The command line as a whole: every command, and errors of usage in our own form. */
import { readFileSync } from 'node:fs';
import { Command, type CommanderError } from 'commander';
import { PbsfsError } from '../errors.ts';
import type { CommandContext } from './command-context.ts';
import { commandNames } from './command-names.ts';
import { createBenchmarkCommand } from './commands/benchmark.ts';
import { createCatCommand } from './commands/cat.ts';
import { createDemoCommand } from './commands/demo.ts';
import { createDoctorCommand } from './commands/doctor.ts';
import { createFindCommand } from './commands/find.ts';
import { createLsCommand } from './commands/ls.ts';
import { createMountCommand } from './commands/mount.ts';
import { createRestoreCommand } from './commands/restore.ts';
import { createUmountCommand } from './commands/umount.ts';
import { createVerifyCommand } from './commands/verify.ts';
import { exitCodeHelp } from './exit-code.ts';
import { explainUnknownCommand } from './unknown-command.ts';

/** A program that throws instead of ending the process; errors are printed by who catches them. */
export function createProgram(context: CommandContext): Command {
  const program = new Command('pbsfs')
    .description('Read the backups in a Proxmox Backup Server datastore as ordinary files')
    .version(readVersion(), '-V, --version')
    .addHelpText(
      'after',
      `
'pbsfs COMMAND --help' says more of each. A path such as vm/100/latest/drive-scsi0.img is the same for
every command and in the mount.

${exitCodeHelp}`,
    );
  program.addCommand(createMountCommand(context));
  program.addCommand(createUmountCommand());
  program.addCommand(createLsCommand(context));
  program.addCommand(createCatCommand(context));
  program.addCommand(createFindCommand(context));
  program.addCommand(createRestoreCommand(context));
  program.addCommand(createVerifyCommand(context));
  program.addCommand(createBenchmarkCommand(context));
  program.addCommand(createDoctorCommand(context));
  program.addCommand(createDemoCommand(context));
  for (const command of [program, ...program.commands]) {
    command.exitOverride().configureOutput({ outputError: () => {} });
  }
  return program;
}

/** Of the package, both from src/ and from dist/. */
function readVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  const { version } = JSON.parse(text) as { version: string };
  return version;
}

/** What commander threw as our own error; undefined where it only showed help or the version. */
export function translateCommanderError(
  error: CommanderError,
  args: readonly string[],
): PbsfsError | undefined {
  if (error.exitCode === 0) return undefined;
  const [name = ''] = args;
  if (error.code === 'commander.help') {
    return new PbsfsError('usage', 'no command given', { hint: "see 'pbsfs --help'" });
  }
  if (error.code === 'commander.unknownCommand') {
    const explained = explainUnknownCommand(name);
    if (explained !== undefined) {
      return new PbsfsError('usage', explained.message, { hint: explained.hint });
    }
  }
  const known = commandNames.has(name) ? `${name} ` : '';
  const [first = '', suggestion] = error.message.replace(/^error: /, '').split('\n');
  return new PbsfsError('usage', first, {
    hint: suggestion?.replace(/^\((.*)\)$/, '$1') ?? `see 'pbsfs ${known}--help'`,
  });
}
