/** What a command is told beside its arguments: who started it, and how to ask the user. */
import type { BackgroundChannel } from './background.ts';
import type { Ask } from './prompt.ts';

export interface CommandContext {
  /** Arguments as they were given, the command's name first. */
  readonly args: readonly string[];
  /** Set in the background process of a mount. */
  readonly background: BackgroundChannel | undefined;
  /** Undefined where there is nobody to ask. */
  readonly ask: Ask | undefined;
}
