/**
 * Where the messages of a command go: standard error, `--log-file`, or, for a mount in the background without
 * one, the system log. `DEBUG=pbsfs:*` is apart from this and always goes to standard error.
 */
import { spawn } from 'node:child_process';
import { openSync, writeSync } from 'node:fs';
import type { Writable } from 'node:stream';
import type { Logger, LogLevel } from '../log.ts';
import { oneLine } from './output.ts';
import { fileError } from './user-file.ts';

/** From few messages to many. */
export const logLevels: readonly LogLevel[] = ['error', 'warn', 'info', 'debug'];

export interface LogOptions {
  readonly log?: LogLevel;
  readonly verbose?: boolean;
  readonly quiet?: boolean;
  readonly logFile?: string;
}

/** Takes a finished line without its end. */
export type LineSink = (line: string, level: LogLevel) => void;

/** The level that the options ask for: `--log` wins over `-v` and `-q`. */
export function logLevelOf(options: LogOptions): LogLevel {
  if (options.log !== undefined) return options.log;
  if (options.quiet === true) return 'error';
  return options.verbose === true ? 'debug' : 'info';
}

/** A logger that passes on what `level` allows, one line each. */
export function createLogger(level: LogLevel, sink: LineSink): Logger {
  const most = logLevels.indexOf(level);
  return (messageLevel, message) => {
    if (logLevels.indexOf(messageLevel) <= most) sink(oneLine(message), messageLevel);
  };
}

/** The logger of a command in the foreground. @throws PbsfsError where the log file cannot be opened. */
export function openLogger(options: LogOptions): Logger {
  const sink = options.logFile === undefined ? standardErrorSink : openFileSink(options.logFile);
  return createLogger(logLevelOf(options), sink);
}

/** `pbsfs: warning: …`, as on standard error. */
export function formatLogLine(line: string, level: LogLevel): string {
  const prefix = level === 'warn' ? 'warning: ' : level === 'info' ? '' : `${level}: `;
  return `pbsfs: ${prefix}${line}`;
}

export const standardErrorSink: LineSink = (line, level) => {
  process.stderr.write(`${formatLogLine(line, level)}\n`);
};

/**
 * Appends `2026-11-30T21:30:00Z warn …` to a file.
 * @throws PbsfsError `not-found`, `access-denied`, `failed`
 */
export function openFileSink(path: string): LineSink {
  const fd = openForAppending(path);
  return (line, level) => {
    const time = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
    try {
      writeSync(fd, `${time} ${level} ${line}\n`);
    } catch {
      // A full disk under the log must not end the mount.
    }
  };
}

function openForAppending(path: string): number {
  try {
    return openSync(path, 'a', 0o640);
  } catch (error) {
    throw fileError(error, 'log file', path);
  }
}

/** syslog(3): facility daemon (3) above three bits of severity. */
const priorities = { error: 27, warn: 28, info: 30, debug: 31 } as const;

/** Hands lines to the system log by one logger(1), started at the first line; without it they are lost. */
export function createSystemLogSink(): LineSink {
  let input: Writable | undefined;
  return (line, level) => {
    input ??= startSystemLogger();
    input.write(`<${priorities[level]}>${line}\n`);
  };
}

function startSystemLogger(): Writable {
  const child = spawn('logger', ['--tag', 'pbsfs', `--id=${process.pid}`, '--prio-prefix'], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // mount(8) starts its helpers without PATH.
    env: { PATH: '/usr/bin:/bin', ...process.env },
  });
  child.on('error', () => {});
  child.stdin.on('error', () => {});
  child.unref();
  return child.stdin;
}
