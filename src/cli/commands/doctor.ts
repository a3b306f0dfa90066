/** `pbsfs doctor`: what is missing for a mount, or for opening a repository, and how to mend it. */
import { Command } from 'commander';
import type { CommandContext } from '../command-context.ts';
import { addHelpEnd, addRepositoryOptions, type RepositoryOptions } from '../common-options.ts';
import { type Check, fail, formatCheck, ok } from '../doctor-check.ts';
import { checkMachine } from '../doctor-machine.ts';
import { checkRepository } from '../doctor-repository.ts';
import { type LogOptions, openLogger } from '../logging.ts';
import { locateRepository, namesRepository } from '../open-repository.ts';
import { openTree } from '../open-tree.ts';
import { writeOut } from '../output.ts';

interface DoctorOptions extends RepositoryOptions, LogOptions {
  readonly json?: boolean;
}

/** The command for the program. */
export function createDoctorCommand(context: CommandContext): Command {
  const command = new Command('doctor')
    .description('say what is missing for a mount or a repository, and how to mend it')
    .argument('[repository]', 'looked into as well; wins over --repository')
    .option('--json', 'one array of objects');
  addRepositoryOptions(command);
  addHelpEnd(command, {
    repository: true,
    examples: `
      pbsfs doctor
      pbsfs doctor --keyfile key.json /mnt/datastore`,
  });
  return command.action(async (repository: string | undefined, given: DoctorOptions) => {
    const options = { ...given, ...(repository === undefined ? {} : { repository }) };
    const checks = [...(await checkMachine())];
    if (namesRepository(options)) checks.push(...(await openAndCheck(options, context)));
    await print(checks, options.json === true);
    process.exitCode = checks.find((check) => check.status === 'fail')?.exitCode ?? 0;
  });
}

async function openAndCheck(
  options: DoctorOptions,
  context: CommandContext,
): Promise<readonly Check[]> {
  const checks: Check[] = [];
  try {
    const logger = openLogger(options);
    const target = await locateRepository(options, context.ask, logger);
    for await (const { step, detail, error } of target.checkSteps?.() ?? []) {
      checks.push(
        error === undefined ? ok(`server ${step}`, detail) : fail(`server ${step}`, error),
      );
      if (error !== undefined) return checks;
    }
    const reading = { ...options, cacheChunks: 1, concurrency: 1, prefetch: 0 };
    await using opened = await openTree(target, reading, context.ask, logger);
    checks.push(ok('repository', `${target.name} opens`));
    checks.push(...(await checkRepository(opened.tree)));
  } catch (error) {
    checks.push(fail('repository', error));
  }
  return checks;
}

async function print(checks: readonly Check[], asJson: boolean): Promise<void> {
  const shown = checks.map(({ name, status, detail, hint }) => ({ name, status, detail, hint }));
  if (asJson) await writeOut(`${JSON.stringify(shown, null, 2)}\n`);
  else await writeOut(checks.map((check) => `${formatCheck(check)}\n`).join(''));
}
