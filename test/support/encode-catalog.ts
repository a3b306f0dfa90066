/** Writes catalogs for tests: an own reading of the format, independent of the product's. */

export type CatalogNode =
  | { readonly type: 'd'; readonly name: Buffer; readonly children: readonly CatalogNode[] }
  | { readonly type: 'f'; readonly name: Buffer; readonly size: number; readonly mtime: number }
  | { readonly type: 'l' | 'h' | 'b' | 'c' | 'p' | 's'; readonly name: Buffer };

export const testCatalogMagic: Buffer = Buffer.from([145, 253, 96, 249, 196, 103, 88, 213]);

export function varint(value: bigint | number): Buffer {
  const bytes: number[] = [];
  let left = BigInt(value);
  while (left >= 0x80n) {
    bytes.push(Number(left & 0x7fn) | 0x80);
    left >>= 7n;
  }
  return Buffer.from([...bytes, Number(left)]);
}

export function signedVarint(value: bigint | number): Buffer {
  let left = BigInt(value);
  if (left >= 0n) return varint(left);
  const bytes: number[] = [];
  for (left = -left; left > 0n; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80);
  return Buffer.from([...bytes, 0]);
}

/** A block: the entries with the length of their table in front. */
export function catalogBlock(entries: readonly Buffer[]): Buffer {
  const table = Buffer.concat([varint(entries.length), ...entries]);
  return Buffer.concat([varint(table.length), table]);
}

export function catalogEntry(type: string, name: Buffer, ...rest: readonly Buffer[]): Buffer {
  return Buffer.concat([Buffer.from(type), varint(name.length), name, ...rest]);
}

/** @param archives the directories of the root, named as the manifest names the archives. */
export function encodeCatalog(archives: readonly CatalogNode[]): Buffer {
  const parts: Buffer[] = [testCatalogMagic];
  let position = testCatalogMagic.length;
  const write = (nodes: readonly CatalogNode[]): number => {
    const children = nodes.map((node) => (node.type === 'd' ? write(node.children) : 0));
    const start = position;
    const entries = nodes.map((node, i) => {
      if (node.type === 'd') {
        return catalogEntry('d', node.name, varint(start - (children[i] ?? 0)));
      }
      if (node.type !== 'f') return catalogEntry(node.type, node.name);
      return catalogEntry('f', node.name, varint(node.size), signedVarint(node.mtime));
    });
    const block = catalogBlock(entries);
    parts.push(block);
    position += block.length;
    return start;
  };
  const trailer = Buffer.alloc(8);
  trailer.writeBigUInt64LE(BigInt(write(archives)));
  return Buffer.concat([...parts, trailer]);
}
