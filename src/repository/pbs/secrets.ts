/**
 * Secrets and settings from the environment, in PBS's order. The first that is defined counts, and one
 * that is defined and cannot be read is an error, not a reason to look further:
 *
 *   NAME        the value itself
 *   NAME_FD     number of a file descriptor to read it from
 *   NAME_FILE   path of a file
 *   NAME_CMD    a command line, run without a shell; its standard output
 *   proxmox-backup-client.CREDENTIAL in $CREDENTIALS_DIRECTORY (systemd)
 *
 * Only the first line counts, except for the systemd credential of a passphrase, which is taken whole.
 *
 * Source: PBS `pbs-client/src/tools/mod.rs`.
 */
import { spawn } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PbsfsError } from '../../errors.ts';
import { splitShellWords } from './shell-words.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const credentialNames = {
  PBS_PASSWORD: 'password',
  PBS_ENCRYPTION_PASSWORD: 'encryption-password',
  PBS_REPOSITORY: 'repository',
  PBS_FINGERPRINT: 'fingerprint',
} as const;

export type SecretName = keyof typeof credentialNames;

/** Longer first lines are no passwords: the bound keeps `/dev/zero` from filling the memory. */
const maxLineLength = 64 * 1024;

/**
 * The value of one of the four, or undefined where none of its forms is defined.
 * @throws PbsfsError `usage` for a form that cannot be used, `failed` for a command that fails.
 */
export async function readSecret(name: SecretName, env: Environment): Promise<string | undefined> {
  const plain = env[name];
  if (plain !== undefined) return firstLine(plain);
  const fd = env[`${name}_FD`];
  if (fd !== undefined) return await readDescriptor(`${name}_FD`, fd);
  const file = env[`${name}_FILE`];
  if (file !== undefined) return await readFirstLine(`${name}_FILE`, createReadStream(file));
  const command = env[`${name}_CMD`];
  if (command !== undefined) return await runCommand(`${name}_CMD`, command, env);
  return await readCredential(name, env['CREDENTIALS_DIRECTORY']);
}

function firstLine(text: string): string {
  return /^[^\n]*/.exec(text)?.[0].replace(/\r$/, '') ?? '';
}

async function readDescriptor(variable: string, text: string): Promise<string> {
  if (!/^\d+$/.test(text)) {
    throw new PbsfsError('usage', `${variable} is not the number of a file descriptor`);
  }
  const stream = createReadStream('', { fd: Number(text), autoClose: false });
  return await readFirstLine(variable, stream);
}

async function readFirstLine(variable: string, stream: AsyncIterable<Buffer>): Promise<string> {
  let bytes = Buffer.alloc(0);
  try {
    for await (const part of stream) {
      bytes = Buffer.concat([bytes, part]);
      if (part.includes('\n')) break;
      if (bytes.length > maxLineLength) break;
    }
  } catch (cause) {
    throw new PbsfsError('usage', `${variable} cannot be read: ${reason(cause)}`, { cause });
  }
  return decodeLine(variable, bytes);
}

function decodeLine(variable: string, bytes: Buffer): string {
  const end = bytes.indexOf('\n');
  const line = end < 0 ? bytes : bytes.subarray(0, end);
  if (line.length > maxLineLength) {
    throw new PbsfsError('usage', `${variable} gives a line of more than ${maxLineLength} bytes`);
  }
  try {
    return firstLine(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(line));
  } catch (cause) {
    throw new PbsfsError('usage', `${variable} gives bytes that are not UTF-8`, { cause });
  }
}

/** Never shows the command: it may hold a secret. */
async function runCommand(variable: string, text: string, env: Environment): Promise<string> {
  const [program, ...args] = splitShellWords(text);
  if (program === undefined) throw new PbsfsError('usage', `${variable} is empty`);
  // The command may ask on the terminal, so it keeps standard input and error.
  const child = spawn(program, args, { stdio: ['inherit', 'pipe', 'inherit'], env: { ...env } });
  const parts: Buffer[] = [];
  child.stdout.on('data', (part: Buffer) => parts.push(part));
  const code = await new Promise<number | string>((resolve, reject) => {
    child.on('error', (cause) =>
      reject(new PbsfsError('failed', `${variable} cannot be run: ${reason(cause)}`, { cause })),
    );
    child.on('close', (status, signal) => resolve(status ?? signal ?? 'nothing'));
  });
  if (code !== 0) throw new PbsfsError('failed', `the command of ${variable} ended with ${code}`);
  return decodeLine(variable, Buffer.concat(parts));
}

async function readCredential(
  name: SecretName,
  directory: string | undefined,
): Promise<string | undefined> {
  if (directory === undefined) return undefined;
  const credential = `proxmox-backup-client.${credentialNames[name]}`;
  let bytes: Buffer;
  try {
    bytes = await readFile(join(directory, credential));
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new PbsfsError('usage', `credential ${credential} cannot be read: ${reason(cause)}`, {
      cause,
    });
  }
  if (name !== 'PBS_ENCRYPTION_PASSWORD') return decodeLine(`credential ${credential}`, bytes);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new PbsfsError('usage', `credential ${credential} is not UTF-8`, { cause });
  }
}

function reason(cause: unknown): string {
  return (cause as NodeJS.ErrnoException).code ?? 'it failed';
}
