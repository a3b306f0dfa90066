/** The layers of docs/architecture.md: a file imports its own layer and lower ones, and few packages. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';

interface Layer {
  readonly rank: number;
  readonly packages: readonly string[];
}

const layers: Readonly<Record<string, Layer>> = {
  '': { rank: 0, packages: ['debug'] },
  formats: { rank: 1, packages: [] },
  repository: { rank: 2, packages: ['undici'] },
  chunks: { rank: 3, packages: ['lru-cache'] },
  archives: { rank: 4, packages: [] },
  tree: { rank: 5, packages: [] },
  fuse: { rank: 6, packages: ['koffi', 'fuse-native'] },
  transfer: { rank: 6, packages: ['koffi'] },
  cli: { rank: 7, packages: ['commander'] },
};

/** The library's entry stands above everything but the command line. */
const libraryEntry = 'index.ts';

function layerOf(file: string): string {
  const folder = file.includes('/') ? file.slice(0, file.indexOf('/')) : '';
  return folder;
}

function importsOf(source: string): string[] {
  const pattern = /(?:\bfrom\s+|\bimport\s+|\bimport\(\s*|\brequire\(\s*)'([^']+)'/g;
  return [...source.matchAll(pattern)].map((match) => match[1] ?? '');
}

const files = globSync('**/*.ts', { cwd: 'src' }).sort();

test('every source file lies in a known layer', () => {
  assert.ok(files.length > 3);
  for (const file of files) assert.ok(layerOf(file) in layers, `${file}: unknown layer`);
});

test('imports go to the same layer or downward, packages are those of the layer', () => {
  for (const file of files) {
    if (file === libraryEntry) continue;
    const name = layerOf(file);
    const layer = layers[name];
    assert.ok(layer);
    for (const specifier of importsOf(readFileSync(join('src', file), 'utf8'))) {
      if (specifier.startsWith('.')) {
        const target = normalize(join(dirname(file), specifier));
        const targetName = layerOf(target);
        const targetLayer = layers[targetName];
        assert.ok(targetLayer, `${file} imports ${target}, which is in no layer`);
        const allowed = targetName === name || targetLayer.rank < layer.rank;
        assert.ok(allowed, `${file} (${name}) imports upward or sideways: ${target}`);
      } else if (!specifier.startsWith('node:')) {
        assert.ok(layer.packages.includes(specifier), `${file} (${name}) may not use ${specifier}`);
      }
    }
  }
});

test('only the datastore, the driver and the command line touch the file system', () => {
  const allowed = /^(repository\/|fuse\/|transfer\/|cli\/)/;
  for (const file of files) {
    if (allowed.test(file)) continue;
    const imports = importsOf(readFileSync(join('src', file), 'utf8'));
    const io = imports.filter((name) =>
      /^node:(fs|net|tls|http|https|http2|child_process)/.test(name),
    );
    assert.deepEqual(io, [], `${file} does I/O`);
  }
});
