/**
 * JSON as PBS reads and signs it.
 *
 * Numbers that JavaScript would print otherwise than they were written (integers beyond 2^53, `1.0`) are kept
 * as source text, for a signature covers the text. Nesting is limited to 128, the limit of the parser in PBS
 * (`serde_json`), so that no walk over a value can overflow the stack.
 *
 * Source of the canonical form: `proxmox-serde` and PBS `pbs-datastore/src/manifest.rs`.
 */
import { PbsfsError } from '../errors.ts';

export type JsonValue =
  | null
  | boolean
  | number
  | string
  | RawNumber
  | readonly JsonValue[]
  | JsonObject;

export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** What `JSON.rawJSON` makes: `JSON.stringify` prints its text as it is. */
interface RawNumber {
  readonly rawJSON: string;
}

/** The parts of `JSON` in Node 24 that TypeScript's library does not know yet. */
const sourceTextJson = JSON as unknown as {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): JsonValue;
  rawJSON(text: string): RawNumber;
  isRawJSON(value: unknown): value is RawNumber;
};

const maxDepth = 128;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * @param what names the text in messages; the text itself may be secret and never appears.
 * @throws PbsfsError `corrupt`
 */
export function parseJson(text: string | Uint8Array, what: string): JsonValue {
  let value: JsonValue;
  try {
    value = sourceTextJson.parse(typeof text === 'string' ? text : utf8.decode(text), keepSource);
  } catch (error) {
    // The parser's own message quotes the text. Its only RangeError is a stack too deep.
    const why = error instanceof RangeError ? 'is nested too deeply' : 'is not JSON';
    throw new PbsfsError('corrupt', `${what} ${why}`);
  }
  assertDepth(value, maxDepth, what);
  return value;
}

function keepSource(_key: string, value: unknown, context: { readonly source?: string }): unknown {
  if (typeof value !== 'number' || context.source === undefined) return value;
  return String(value) === context.source ? value : sourceTextJson.rawJSON(context.source);
}

function assertDepth(value: JsonValue, left: number, what: string): void {
  if (typeof value !== 'object' || value === null) return;
  if (left === 0) throw new PbsfsError('corrupt', `${what} is nested too deeply`);
  for (const child of Object.values(value)) assertDepth(child, left - 1, what);
}

/** True for an object: no list, no null, no number kept as text. */
export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !sourceTextJson.isRawJSON(value)
  );
}

/** Two spaces of indentation, as PBS writes manifests. */
export function formatPrettyJson(value: JsonValue): string {
  return JSON.stringify(value, undefined, 2);
}

/**
 * The text that signatures cover: no white space, keys in the order of their bytes.
 * @throws PbsfsError `corrupt` where a null is in it.
 */
export function canonicalJson(value: JsonValue): string {
  if (value === null) throw new PbsfsError('corrupt', 'signed JSON holds a null');
  if (isJsonObject(value)) {
    const members = Object.entries(value)
      .map(([key, member]) => ({ key, bytes: Buffer.from(key), member }))
      .sort((a, b) => Buffer.compare(a.bytes, b.bytes))
      .map(({ key, member }) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
    return `{${members.join(',')}}`;
  }
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  return JSON.stringify(value);
}

/** Reads the members of one object and names what is wrong. */
export class JsonReader {
  readonly #object: JsonObject;
  readonly #what: string;

  /** @throws PbsfsError `corrupt` where `value` is no object. */
  constructor(value: JsonValue | undefined, what: string) {
    if (!isJsonObject(value)) throw new PbsfsError('corrupt', `${what} is not a JSON object`);
    this.#object = value;
    this.#what = what;
  }

  /** The member, or undefined where it is absent or null. */
  get(key: string): JsonValue | undefined {
    return Object.hasOwn(this.#object, key) ? (this.#object[key] ?? undefined) : undefined;
  }

  /** @throws PbsfsError `corrupt` */
  string(key: string): string {
    const value = this.get(key);
    if (typeof value !== 'string') throw this.error(`'${key}' is not a string`);
    return value;
  }

  /** @throws PbsfsError `corrupt` where it is there and not a string. */
  optionalString(key: string): string | undefined {
    return this.get(key) === undefined ? undefined : this.string(key);
  }

  /** A whole number from 0 to 2^53−1. @throws PbsfsError `corrupt` */
  integer(key: string): number {
    const value = this.get(key);
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
      throw this.error(`'${key}' is not a whole number from 0 to 2^53−1`);
    }
    return value;
  }

  /** @throws PbsfsError `corrupt` */
  list(key: string): readonly JsonValue[] {
    const value = this.get(key);
    if (!Array.isArray(value)) throw this.error(`'${key}' is not a list`);
    return value;
  }

  /** To throw: says what is wrong with this object. */
  error(why: string): PbsfsError {
    return new PbsfsError('corrupt', `${this.#what}: ${why}`);
  }
}
