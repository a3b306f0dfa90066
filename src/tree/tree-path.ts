/**
 * Paths as users write and read them. A name is bytes: those that are valid UTF-8 and printable stand for
 * themselves, any other byte is written `\xNN`, and a backslash `\\`.
 */
import { PbsfsError } from '../errors.ts';

const backslash = 0x5c;
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
/** Control characters, and those that only change how the others are shown. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

function escapeByte(byte: number): string {
  return `\\x${byte.toString(16).padStart(2, '0').toUpperCase()}`;
}

/** Length of the UTF-8 sequence that starts with `byte`, 1 where none does. */
function sequenceLength(byte: number): number {
  if (byte >= 0xf0) return 4;
  if (byte >= 0xe0) return 3;
  return byte >= 0xc0 ? 2 : 1;
}

function decodeCharacter(bytes: Uint8Array): string | undefined {
  try {
    const text = strictUtf8.decode(bytes);
    return unprintable.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

/** One name for people and for `parseTreePath`. */
export function formatTreeName(name: Uint8Array): string {
  let text = '';
  for (let at = 0; at < name.length; ) {
    const byte = name[at] ?? 0;
    const length = sequenceLength(byte);
    const character = decodeCharacter(name.subarray(at, at + length));
    if (byte === backslash) text += '\\\\';
    else text += character ?? escapeByte(byte);
    at += character === undefined ? 1 : length;
  }
  return text;
}

export function formatTreePath(path: readonly Uint8Array[]): string {
  return path.map(formatTreeName).join('/');
}

/**
 * Components of a path, without empty ones and `.`.
 * @throws PbsfsError `usage` for `..`, a NUL or a backslash that starts no escape.
 */
export function parseTreePath(text: string): Buffer[] {
  return text
    .split('/')
    .filter((component) => component !== '' && component !== '.')
    .map((component) => parseName(component, text));
}

function parseName(component: string, path: string): Buffer {
  if (component === '..') {
    throw new PbsfsError('usage', `path '${path}' must not contain '..'`);
  }
  const parts = component.split(/(\\x[0-9A-Fa-f]{2}|\\\\)/);
  const bytes = parts.map((part, index) => {
    if (index % 2 === 1) {
      return part === '\\\\' ? Buffer.from('\\') : Buffer.from(part.slice(2), 'hex');
    }
    if (part.includes('\\')) {
      throw new PbsfsError('usage', `path '${path}' has a backslash that starts no escape`, {
        hint: 'write \\\\ for a backslash and \\xNN for a byte',
      });
    }
    return Buffer.from(part);
  });
  const name = Buffer.concat(bytes);
  if (name.includes(0) || name.includes(0x2f)) {
    throw new PbsfsError('usage', `path '${path}' has a NUL or an escaped slash in a name`);
  }
  return name;
}
