/** Paths as archive formats have them. */

const slash = Buffer.from('/');

/** Names with slashes between them. */
export function joinPath(path: readonly Buffer[]): Buffer {
  return Buffer.concat(path.flatMap((name, index) => (index === 0 ? [name] : [slash, name])));
}
