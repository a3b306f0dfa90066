/** Checks of request parameters, with the texts of the real server. */

const safeId = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;
const pattern = (regex: RegExp) => (value: string) =>
  regex.test(value) ? undefined : 'value does not match the regex pattern';

type Check = (value: string) => string | undefined;

const checks: Readonly<Record<string, Check>> = {
  store: (value) =>
    value.length < 3 ? 'value must be at least 3 characters long' : pattern(safeId)(value),
  ns: pattern(/^(?:[A-Za-z0-9_][\w.-]*(?:\/[A-Za-z0-9_][\w.-]*){0,7})?$/),
  parent: pattern(/^(?:[A-Za-z0-9_][\w.-]*(?:\/[A-Za-z0-9_][\w.-]*){0,7})?$/),
  'backup-id': pattern(safeId),
  'backup-type': (value) =>
    ['vm', 'ct', 'host'].includes(value)
      ? undefined
      : `value '${value}' is not defined in the enumeration.`,
  'backup-time': (value) => (/^-?\d+$/.test(value) ? undefined : 'value is not an integer'),
  'file-name': pattern(safeId),
  digest: pattern(/^[a-f0-9]{64}$/),
};

export class BadRequest extends Error {}

export interface ParameterSchema {
  readonly required?: readonly string[];
  readonly optional?: readonly string[];
}

/** @throws BadRequest */
export function checkParameters(
  query: URLSearchParams,
  schema: ParameterSchema,
): Readonly<Record<string, string>> {
  const required = schema.required ?? [];
  const known = new Set([...required, ...(schema.optional ?? [])]);
  const faults: string[] = [];
  const values: Record<string, string> = {};
  for (const [name, value] of query) {
    if (name in values) throw new BadRequest('duplicate parameter.');
    values[name] = value;
    const fault = known.has(name)
      ? checks[name]?.(value)
      : 'schema does not allow additional properties.';
    if (fault !== undefined) faults.push(`'${name}': ${fault}`);
  }
  for (const name of required) {
    if (!(name in values)) faults.push(`'${name}': parameter is missing and it is not optional.`);
  }
  const [first] = faults;
  if (first === undefined) return values;
  throw new BadRequest(
    faults.length === 1
      ? `parameter verification failed - ${first}`
      : `parameter verification failed:\n${faults.map((fault) => `- ${fault}`).join('\n')}`,
  );
}
