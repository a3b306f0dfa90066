/**
 * Malformed archives. Those that the reference reader takes read the same here; the others give our error, or
 * better: what can be read is read. Each must end, and allocate no more than it holds.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { openPxar, type PxarArchive } from '../../../src/archives/pxar/pxar-archive.ts';
import { PbsfsError } from '../../../src/errors.ts';
import type { PxarDirectory } from '../../../src/formats/pxar/entry.ts';
import { readAtBuffer } from '../../../src/read-at.ts';
import { goldenPath, readGolden } from '../../support/golden.ts';
import { describeEntry, joinPath } from '../../support/read-pxar.ts';
import { needs } from '../../support/requirements.ts';

interface Result {
  readonly name: string;
  readonly files: readonly string[];
  readonly seq: { readonly rc: number; readonly n: number; readonly entries: readonly string[] };
  readonly acc: { readonly rc: number; readonly n: number; readonly entries: readonly string[] };
}

const results: readonly Result[] = needs('golden')
  ? []
  : (JSON.parse(readGolden('v2/bad/real-reader-results.json').toString()) as Result[]);

interface Read {
  /** As in the results: `file:/sub/b.txt:5`. */
  readonly entries: string[];
  /** `path: code`, for everything that cannot be read. */
  readonly damaged: string[];
  readonly warnings: string[];
}

async function openBad({ files }: Result, warnings: string[]): Promise<PxarArchive> {
  const [metadata, payload] = files.map((file) => readAtBuffer(readGolden(`v2/bad/${file}`)));
  assert.ok(metadata);
  return await openPxar(metadata, payload, {
    logger: (level, message) => warnings.push(`${level}: ${message}`),
  });
}

/** Everything that can be read of an archive, with lookups of every name. */
async function readEverything(result: Result): Promise<Read> {
  const read: Read = { entries: [], damaged: [], warnings: [] };
  const note = (path: string, error: unknown): void => {
    assert.ok(error instanceof PbsfsError && error.code !== 'bug', `${path}: ${error}`);
    read.damaged.push(`/${path}: ${error.code}`);
  };
  const visit = async (
    archive: PxarArchive,
    directory: PxarDirectory,
    path: string,
  ): Promise<void> => {
    read.entries.push(`dir:/${path}`);
    const { members, damaged } = await archive.readDirectory(directory);
    for (const { name, error } of damaged) note(joinPath(path, name ?? Buffer.from('?')), error);
    for (const entry of members) {
      const childPath = joinPath(path, entry.name);
      if (entry.kind === 'directory') await visit(archive, entry, childPath);
      else {
        try {
          await describeEntry(archive, entry);
          const size = entry.kind === 'file' ? `:${entry.size}` : '';
          read.entries.push(`${entry.kind}:/${childPath}${size}`);
        } catch (error) {
          note(childPath, error);
        }
      }
      const found = await archive.lookup(directory, entry.name);
      // Names under the hash of another one are listed only, as the reference reader does.
      const isHidden = result.name === 'hash-collision-3-aaa' && childPath !== 'aaa';
      assert.equal(found?.position, isHidden ? undefined : entry.position, childPath);
    }
  };
  try {
    const archive = await openBad(result, read.warnings);
    await visit(archive, archive.root, '');
  } catch (error) {
    note('', error);
  }
  return read;
}

/**
 * What cannot be read, where it is more than the reference reader's sequential decoder says, or that decoder
 * fails: one member, its neighbours unharmed.
 */
const damages: Readonly<Record<string, readonly string[]>> = {
  'truncated-half': ['/sub: corrupt'],
  'hardlink-self': ['/h: corrupt'],
  'hardlink-before-start': ['/h: corrupt'],
  'hardlink-to-symlink': ['/h1: corrupt'],
  'hardlink-no-path': ['/h: corrupt'],
  'name-empty': ['/: unsupported'],
  'name-slash': ['/a/b: unsupported'],
  'name-dot': ['/.: unsupported'],
  'name-inner-nul': ['/a\0b: unsupported'],
  'name-4097': ['/?: corrupt'],
  'name-zero-content': ['/?: corrupt'],
  'xattr-no-nul': ['/x: corrupt'],
  'xattr-too-large': ['/x: corrupt'],
  'quota-twice': ['/x: corrupt'],
  'unknown-item': ['/x: corrupt'],
  'device-8': ['/d: corrupt'],
  'file-no-payload': ['/f: corrupt'],
  'dir-mode-with-payload': ['/f: corrupt'],
  'symlink-no-nul': ['/s: corrupt'],
  'symlink-empty': ['/s: corrupt'],
  'entry-48': ['/f: corrupt'],
  'entry-32': ['/f: corrupt'],
  'prelude-without-version': ['/: corrupt'],
  'v2-payload-size-mismatch': ['/a.txt: corrupt'],
  'v2-payload-bad-type': ['/a.txt: corrupt'],
  'v2-payload-truncated': ['/a.txt: corrupt', '/sub/b.txt: corrupt'],
  'v2-ref-offset-huge': ['/r: corrupt'],
};

/** What is read of archives that the sequential decoder does not read to their end. */
const salvaged: Readonly<Record<string, readonly string[]>> = {
  'prelude-without-version': [],
  'truncated-half': ['dir:/', 'file:/a.txt:5'],
  'name-empty': ['dir:/'],
  'name-4097': ['dir:/'],
  'v2-payload-size-mismatch': ['dir:/', 'dir:/sub', 'file:/sub/b.txt:5'],
  'v2-payload-bad-type': ['dir:/', 'dir:/sub', 'file:/sub/b.txt:5'],
  'v2-payload-truncated': ['dir:/', 'dir:/sub'],
};

const withWarning: ReadonlySet<string> = new Set([
  'truncated-half',
  'trailing-garbage',
  'tail-bad-hash',
  'tail-size-odd',
  'tail-size-16',
  'tail-size-40',
  'item-offset-huge',
  'item-offset-mid',
  'item-duplicate',
  'dir-cycle',
  'hash-collision-forged',
  'name-empty',
  'name-slash',
  'name-dot',
  'name-inner-nul',
]);

/** What the reference reader lists, without what we do not take. */
function expectedEntries({ name, seq, acc }: Result): readonly string[] {
  const reference = seq.rc === 0 || acc.rc !== 0 ? seq : acc;
  const lost = (damages[name] ?? []).map((damage) => damage.slice(0, damage.lastIndexOf(':')));
  const isLost = (entry: string): boolean => lost.includes(entry.replace(/^[a-z]+:|:\d+$/g, ''));
  return (
    salvaged[name] ??
    reference.entries.filter((entry) => !entry.startsWith('version:') && !isLost(entry))
  );
}

for (const result of results) {
  test(`${result.name} reads as far as it is good`, { timeout: 10_000 }, async () => {
    const { entries, damaged, warnings } = await readEverything(result);
    assert.deepEqual(damaged, damages[result.name] ?? []);
    assert.equal(warnings.length, withWarning.has(result.name) ? 1 : 0, warnings.join());
    if (result.seq.n > result.seq.entries.length) assert.equal(entries.length, result.seq.n);
    else assert.deepEqual(entries.sort(), [...expectedEntries(result)].sort());
  });

  test(`a pass over ${result.name} ends`, { timeout: 10_000 }, async () => {
    if (result.name === 'prelude-without-version') return;
    const archive = await openBad(result, []);
    const open: number[] = [];
    for await (const step of archive.walk()) {
      if (step.step === 'enter') open.push(step.directory.position);
      if (step.step === 'leave') assert.equal(open.pop(), step.directory.position);
    }
    assert.deepEqual(open, []);
  });
}

test('every malformed archive of the golden data is tried', { skip: needs('golden') }, () => {
  const files = readdirSync(goldenPath('v2/bad')).filter((file) => !file.endsWith('.json'));
  const tried = results.flatMap((result) => result.files);
  assert.deepEqual(
    files.filter((file) => !tried.includes(file)),
    [],
  );
});
