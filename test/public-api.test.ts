/** The names that a program may import. A change here is a change for every user of the library. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { promisify } from 'node:util';
import * as pbsfs from '../src/index.ts';

test('the library exports these names and no others', () => {
  assert.deepEqual(Object.keys(pbsfs).sort(), [
    'DiskCache',
    'KeyRing',
    'PbsfsError',
    'SeekableChunkReader',
    'SnapshotArchives',
    'formatError',
    'formatSnapshot',
    'formatTreePath',
    'isPbsfsError',
    'openBackupTree',
    'openDatastore',
    'openImage',
    'openPbs',
    'parseKeyFile',
    'parseNamespace',
    'parseRepositoryString',
    'parseTreePath',
    'readBytes',
    'readExactly',
    'resolvePath',
    'silentLogger',
    'unlockKeyFile',
    'withDiskCache',
    'withRetry',
  ]);
});

test('the package ships its program, its library and its licence, and nothing else', async () => {
  const { stdout } = await promisify(execFile)('npm', [
    'pack',
    '--dry-run',
    '--json',
    '--ignore-scripts',
  ]);
  const [pack] = JSON.parse(stdout) as [{ files: { path: string }[] }];
  const outside = pack.files.map(({ path }) => path).filter((path) => !path.startsWith('dist/'));
  assert.deepEqual(outside.sort(), ['LICENSE', 'README.md', 'bin/pbsfs.js', 'package.json']);
});

test('the library can be used without the command line and the drivers', () => {
  const source = readFileSync('src/index.ts', 'utf8');
  assert.doesNotMatch(source, /'\.\/(?:cli|fuse)\//);
});
