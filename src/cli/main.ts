/**
 * The process: finds out who called, runs one command, prints what went wrong and ends with the exit code.
 * A command sets `process.exitCode` where it went on after a failure.
 */
import { CommanderError } from 'commander';
import { type BackgroundChannel, openBackgroundChannel } from './background.ts';
import { commandNames } from './command-names.ts';
import { exitCodeOf } from './exit-code.ts';
import { isHelperCall, parseHelperCall } from './mount-helper.ts';
import { formatFailure, guardStandardStreams, OutputClosed, printFailure } from './output.ts';
import { prepareEnd } from './process-end.ts';
import { createProgram, translateCommanderError } from './program.ts';
import { terminalPrompt } from './prompt.ts';

/** @param argv node, the name that pbsfs was called by, arguments. Ends the process. */
export async function main(argv: readonly string[]): Promise<void> {
  guardStandardStreams();
  const [, programName = 'pbsfs', ...args] = argv;
  const isHelper = isHelperCall(programName, args, commandNames);
  const what = isHelper ? 'mount' : nameOfCommand(args);
  const background = openBackgroundChannel();
  const fail = async (error: unknown): Promise<void> => {
    if (error instanceof OutputClosed) return;
    process.exitCode = exitCodeOf(error);
    if (background === undefined) printFailure(what, error);
    else await background.failed(formatFailure(what, error), process.exitCode);
  };
  process.on('uncaughtException', async (error) => {
    await fail(error);
    // A mount takes itself away first, and then ends.
    if (process.listenerCount('uncaughtException') === 1) process.exit();
  });
  await prepareEnd(what);
  try {
    await run(isHelper ? parseHelperCall(args) : args, background);
  } catch (error) {
    await fail(error);
  }
  // Idle connections to a server must not keep a finished command.
  process.exit();
}

function nameOfCommand([first = '']: readonly string[]): string | undefined {
  return commandNames.has(first) ? first : undefined;
}

async function run(
  args: readonly string[],
  background: BackgroundChannel | undefined,
): Promise<void> {
  const program = createProgram({
    args,
    background,
    ask: background === undefined ? terminalPrompt() : background.ask,
  });
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    const failure = translateCommanderError(error, args);
    if (failure !== undefined) throw failure;
  }
}
