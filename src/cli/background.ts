/**
 * A mount in the background: the command starts itself again, detached from the terminal, and waits until the
 * child says that the mount answers, or why there is none. Until then the parent lends the child its
 * terminal: it shows lines and asks for secrets. The two talk over Node's channel:
 *
 *   child → parent   { ask: question }   { line: text }   { ready: true }   { failed: line, exitCode }
 *   parent → child   { answer: text or null }
 *
 * A child whose parent goes away before `ready` ends too.
 */
import { spawn } from 'node:child_process';
import { fstatSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { PbsfsError } from '../errors.ts';
import { exitCodes } from './exit-code.ts';
import { type Ask, type Question, terminalPrompt } from './prompt.ts';

/** Set for the child, and removed by it at once: whether there is somebody to ask. */
const marker = 'PBSFS_BACKGROUND';
const values = { terminal: 'terminal', nobody: 'nobody' } as const;
const program = fileURLToPath(new URL('../../bin/pbsfs.js', import.meta.url));

interface ChildMessage {
  readonly ask?: Question;
  readonly line?: string;
  readonly ready?: true;
  readonly failed?: string;
  readonly exitCode?: number;
}

/**
 * Runs `pbsfs` with `args` in the background and returns its exit code: 0 as soon as the mount answers.
 * @throws PbsfsError `failed` where the child cannot be started or dies without a word.
 */
export async function runInBackground(args: readonly string[]): Promise<number> {
  const inherited = namedDescriptors(args);
  // Without gaps: Node would close the ranks, and the descriptors get other numbers.
  const stdio: ('ignore' | 'ipc' | number)[] = Array.from(
    { length: Math.max(2, ...inherited) + 1 },
    () => 'ignore',
  );
  for (const fd of inherited) stdio[fd] = fd;
  stdio.push('ipc');
  const ask = terminalPrompt();
  const child = spawn(process.execPath, [...process.execArgv, program, ...args], {
    detached: true,
    stdio,
    env: { ...process.env, [marker]: ask === undefined ? values.nobody : values.terminal },
  });
  return await new Promise((resolve, reject) => {
    const finish = (exitCode: number): void => {
      child.disconnect();
      child.unref();
      resolve(exitCode);
    };
    child.on('message', (message: ChildMessage) => {
      if (message.line !== undefined) process.stderr.write(`${message.line}\n`);
      if (message.ask !== undefined) void answer(ask, message.ask, (reply) => child.send(reply));
      if (message.ready === true) finish(0);
      if (message.failed !== undefined) {
        process.stderr.write(`${message.failed}\n`);
        finish(message.exitCode ?? exitCodes.failed);
      }
    });
    child.on('error', (cause) => {
      reject(new PbsfsError('failed', `cannot start: ${cause.message}`, { cause }));
    });
    child.on('exit', (code, signal) => {
      reject(
        new PbsfsError(
          'failed',
          `the background process ended early (${signal ?? `exit ${code}`})`,
        ),
      );
    });
  });
}

async function answer(
  ask: Ask | undefined,
  question: Question,
  send: (reply: { answer: string | null }) => void,
): Promise<void> {
  const text = ask === undefined ? null : await ask(question).catch(() => null);
  send({ answer: text });
}

/**
 * Descriptors that the arguments or the environment speak of (`/dev/fd/3`, `PBS_PASSWORD_FD=4`): a child of
 * Node inherits only what it is given by number.
 */
function namedDescriptors(args: readonly string[]): number[] {
  const texts = Object.entries(process.env).flatMap(([name, value = '']) => {
    if (!/^PBS_\w+_(FD|FILE)$/.test(name)) return [];
    return [name.endsWith('_FD') ? `/dev/fd/${value}` : value];
  });
  const numbers = [...args, ...texts].flatMap((text) =>
    [...text.matchAll(/\/(?:dev|proc\/self)\/fd\/(\d+)/g)].map((match) => Number(match[1])),
  );
  return numbers.filter((fd) => fd > 2 && isOpen(fd));
}

function isOpen(fd: number): boolean {
  try {
    fstatSync(fd);
    return true;
  } catch {
    return false;
  }
}

/** The child's end of the channel. */
export interface BackgroundChannel {
  /** Undefined where the parent has no terminal. */
  readonly ask: Ask | undefined;
  /** A line for the user's terminal; dropped once the parent has gone. */
  line(text: string): void;
  ready(): Promise<void>;
  failed(line: string, exitCode: number): Promise<void>;
}

/** The channel to the parent, or undefined in a process that is not such a child. Call once. */
export function openBackgroundChannel(): BackgroundChannel | undefined {
  const mark = process.env[marker];
  if (mark === undefined || process.send === undefined) return undefined;
  delete process.env[marker];
  let isReady = false;
  process.once('disconnect', () => {
    if (!isReady) process.kill(process.pid, 'SIGTERM');
  });
  // The mount keeps this process alive, the channel must not.
  process.channel?.unref();
  return {
    ask: mark === values.terminal ? askParent : undefined,
    line: (line) => void send({ line }),
    ready: async () => {
      isReady = true;
      await send({ ready: true });
    },
    failed: async (failed, exitCode) => await send({ failed, exitCode }),
  };
}

/** Resolves when the message is on its way, or when nobody listens any more. */
async function send(message: ChildMessage): Promise<void> {
  if (!process.connected) return;
  await new Promise<void>((resolve) => {
    process.send?.(message, undefined, undefined, () => resolve());
  });
}

async function askParent(question: Question): Promise<string> {
  if (!process.connected) throw noAnswer();
  process.channel?.ref();
  const reply = await new Promise<{ answer?: string | null }>((resolve) => {
    process.once('message', resolve);
    void send({ ask: question });
  });
  process.channel?.unref();
  if (typeof reply.answer === 'string') return reply.answer;
  throw noAnswer();
}

function noAnswer(): PbsfsError {
  return new PbsfsError('aborted', 'there is nobody at a terminal to answer');
}
