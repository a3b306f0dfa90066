/** What the documentation says in tables is what the code does. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { exitCodes } from '../src/cli/exit-code.ts';
import { errnoOf } from '../src/fuse/errno.ts';
import { limitations } from '../src/fuse/fuse-native/limitations.ts';

/** Rows of the first table below a heading, cells trimmed, without header and rule. */
function tableBelow(file: string, heading: string): string[][] {
  const text = readFileSync(file, 'utf8');
  const start = text.indexOf(`\n## ${heading}\n`);
  assert.ok(start >= 0, `${file} has no heading '${heading}'`);
  const lines = text.slice(start).split('\n');
  const first = lines.findIndex((line) => line.startsWith('|'));
  const rows = lines.slice(
    first,
    first + lines.slice(first).findIndex((line) => !line.startsWith('|')),
  );
  return rows.slice(2).map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

test('the table of errors in semantics.md is that of errno.ts and exit-code.ts', () => {
  const rows = tableBelow('docs/semantics.md', 'Errors');
  const documented = Object.fromEntries(
    rows.map(([code = '', , errno, exit]) => [
      code.replaceAll('`', ''),
      { errno, exit: Number(exit) },
    ]),
  );
  const actual = Object.fromEntries(
    Object.entries(exitCodes).map(([code, exit]) => [
      code,
      { errno: errnoOf[code as keyof typeof errnoOf], exit },
    ]),
  );
  assert.deepEqual(documented, actual);
});

test('every dependency has its line in CONTRIBUTING.md', () => {
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, unknown>;
  const text = readFileSync('CONTRIBUTING.md', 'utf8');
  for (const group of ['dependencies', 'optionalDependencies', 'devDependencies']) {
    for (const [name, version] of Object.entries(manifest[group] as Record<string, string>)) {
      assert.match(version, /^\d+\.\d+\.\d+$/, `${name} is not pinned to one version`);
      if (!name.startsWith('@types/'))
        assert.ok(text.includes(`\`${name}\``), `no line for ${name}`);
    }
  }
});

test('the table of layers in architecture.md names every folder of src', () => {
  const rows = tableBelow('docs/architecture.md', 'Layers');
  const documented = rows.flatMap(([, folder = '']) => /src\/(\w+)\//.exec(folder)?.[1] ?? []);
  const actual = readdirSync('src', { withFileTypes: true }).filter((entry) => entry.isDirectory());
  assert.deepEqual(documented.sort(), actual.map((entry) => entry.name).sort());
});

test('links between the documents lead somewhere', () => {
  const pages = [
    'README.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    ...readdirSync('docs')
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`),
  ];
  for (const page of pages) {
    for (const [, target = ''] of readFileSync(page, 'utf8').matchAll(
      /\]\(([^)#\s]+)(?:#[^)]*)?\)/g,
    )) {
      if (/^[a-z]+:/.test(target)) continue;
      assert.ok(existsSync(join(dirname(page), target)), `${page} links to ${target}`);
    }
  }
});

test('every message quoted in troubleshooting.md is one of ours, or said to be of somebody else', () => {
  const sources = globSync('src/**/*.ts')
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n');
  const rows = readFileSync('docs/troubleshooting.md', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  assert.ok(rows.length > 20);
  for (const row of rows) {
    const [, message = '', meaning = ''] = /^\| `([^`]+)` \| (.*) \|$/.exec(row) ?? [];
    if (meaning.startsWith('Said by')) continue;
    const pattern = message
      .replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
      .replace('EACCES', '\\$\\{code\\}');
    assert.match(sources, new RegExp(pattern), `not in the sources: ${message}`);
  }
});

test('what the driver fuse-native cannot do is named in mounting.md', () => {
  const rows = tableBelow('docs/mounting.md', 'Drivers');
  assert.deepEqual(Object.fromEntries(rows), limitations);
});
