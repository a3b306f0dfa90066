/**
 * Logging in two kinds. Traces are for developers and stay silent until `DEBUG=pbsfs:*` asks for them
 * (package `debug`). Messages are for the administrator: a `Logger` is handed down by whoever starts a
 * job, so that a library user decides where they go.
 */
import createDebug from 'debug';

export type LogLevel = 'error' | 'warn' | 'info' | 'debug';

/** Takes finished one-line messages. */
export type Logger = (level: LogLevel, message: string) => void;

/** A logger that drops everything: the default of the library. */
export const silentLogger: Logger = () => {};

/** A trace function for `DEBUG=pbsfs:<name>`. */
export function createTrace(name: string): createDebug.Debugger {
  return createDebug(`pbsfs:${name}`);
}
