/** For `assert.throws` and `assert.rejects`: our own error, of this code, with this message. */
import { type ErrorCode, isPbsfsError } from '../../src/errors.ts';

export function expectError(code: ErrorCode, message?: RegExp): (error: unknown) => boolean {
  return (error) => {
    if (!isPbsfsError(error, code)) throw error;
    if (message !== undefined && !message.test(error.message)) {
      throw new Error(`message '${error.message}' does not match ${message}`);
    }
    return true;
  };
}
