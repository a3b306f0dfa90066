/** Malformed golden archives restored to disk: errors of our own, nothing outside the target, no file half there. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { LinkCounts } from '../../src/archives/pxar/link-counts.ts';
import { openPxar } from '../../src/archives/pxar/pxar-archive.ts';
import { isPbsfsError } from '../../src/errors.ts';
import { readAtBuffer } from '../../src/read-at.ts';
import type { Directory, OpenFile } from '../../src/tree/node.ts';
import { pxarDirectory } from '../../src/tree/pxar-tree.ts';
import { goldenPath, readGolden } from '../support/golden.ts';
import { needs } from '../support/requirements.ts';
import { failuresOf, restore } from './support/restore.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

const skip = needs('golden', 'root', 'find');
const metadataFiles = skip
  ? []
  : readdirSync(goldenPath('v2/bad')).filter((name) => /\.m?pxar$/.test(name));

function open(bytes: Buffer): OpenFile {
  const { size, read } = readAtBuffer(bytes);
  return {
    size,
    read,
    dataSize: size,
    nextData: (offset) => (offset < size ? offset : undefined),
    nextHole: () => size,
    [Symbol.asyncDispose]: async () => {},
  };
}

async function openArchive(name: string): Promise<Directory> {
  const metadata = readGolden(`v2/bad/${name}`);
  const payload = name.endsWith('.mpxar')
    ? readGolden(`v2/bad/${name.replace('.mpxar', '.ppxar')}`)
    : undefined;
  const archive = await openPxar(
    readAtBuffer(metadata),
    payload === undefined ? undefined : readAtBuffer(payload),
  );
  return pxarDirectory(archive, {
    ino: 1,
    links: new LinkCounts(archive),
    openStream: async (stream) =>
      open(stream === 'payload' ? (payload ?? Buffer.alloc(0)) : metadata),
  });
}

for (const name of metadataFiles) {
  test(`${name} is restored as far as it goes`, { skip }, async () => {
    using temporary = temporaryDirectory();
    const target = temporary.join('target');
    let root: Directory;
    try {
      root = await openArchive(name);
    } catch (error) {
      assert.ok(isPbsfsError(error, 'corrupt', 'unsupported'));
      return;
    }
    const report = await restore(root, target);
    for (const { error } of report.failures) {
      assert.ok(isPbsfsError(error, 'corrupt', 'unsupported', 'failed'), String(error));
    }
    assert.deepEqual(readdirSync(temporary.path), ['target']);
    assert.equal(execFileSync('find', [target, '-printf', 'x']).length, report.entries);
    if (name.startsWith('good-')) assert.deepEqual(failuresOf(report), []);
  });
}
