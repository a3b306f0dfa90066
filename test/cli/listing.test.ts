/** `ls -l`, held against the real ls(1). */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  formatListTime,
  formatLongListing,
  formatMode,
  formatTotal,
  type ListedEntry,
} from '../../src/cli/listing.ts';

process.env['TZ'] = 'America/St_Johns';
const folder = mkdtempSync(join(tmpdir(), 'pbsfs-listing-'));

before(() => {
  const now = Date.now() / 1000;
  const times: Readonly<Record<string, number>> = {
    old: 1_700_000_000,
    'before 1970': -1,
    recent: now - 3600,
    future: now + 86_400 * 30,
    'half a year': now - 31_556_952 / 2 + 100,
  };
  for (const [name, time] of Object.entries(times)) {
    writeFileSync(join(folder, name), name.repeat(1000));
    utimesSync(join(folder, name), time, time);
  }
  truncateSync(join(folder, 'future'), 123_456_789);
  utimesSync(join(folder, 'future'), now + 86_400 * 30, now + 86_400 * 30);
  chmodSync(join(folder, 'old'), 0o4755);
  chmodSync(join(folder, 'recent'), 0o6644);
  mkdirSync(join(folder, 'sticky'));
  chmodSync(join(folder, 'sticky'), 0o1777);
  mkdirSync(join(folder, 'sticky, closed'));
  chmodSync(join(folder, 'sticky, closed'), 0o1700);
  symlinkSync('old', join(folder, 'link'));
});

after(() => rmSync(folder, { recursive: true }));

function readEntries(): ListedEntry[] {
  return readdirSync(folder)
    .sort()
    .map((name) => {
      const path = join(folder, name);
      const stats = lstatSync(path);
      const { mode, nlink, uid, gid, size, blocks, mtimeMs } = stats;
      const mtime = { seconds: Math.floor(mtimeMs / 1000), nanos: 0 };
      const kind = stats.isDirectory() ? 'directory' : stats.isSymbolicLink() ? 'symlink' : 'file';
      return {
        name,
        kind,
        attributes: { mode, nlink, uid, gid, size, blocks, mtime },
        target: kind === 'symlink' ? readlinkSync(path, 'buffer') : undefined,
      };
    });
}

test('a long listing is what ls -ln prints', () => {
  const env = { ...process.env, LC_ALL: 'C' };
  const expected = execFileSync('ls', ['-ln', '--quoting-style=literal', folder], { env });
  const entries = readEntries();
  const lines = [formatTotal(entries), ...formatLongListing(entries, Date.now() / 1000)];
  assert.equal(`${lines.join('\n')}\n`, expected.toString());
});

test('devices show their numbers, and what could not be read shows question marks', () => {
  const attributes = {
    mode: 0o020666,
    nlink: 1,
    uid: 0,
    gid: 5,
    size: 0,
    blocks: 0,
    mtime: { seconds: 0, nanos: 0 },
    rdev: { major: 1, minor: 300 },
  };
  const lines = formatLongListing(
    [
      { name: 'null', kind: 'char', attributes, target: undefined },
      { name: 'broken', kind: 'file', attributes: undefined, target: undefined },
    ],
    0,
  );
  assert.match(
    lines[0] ?? '',
    /^crw-rw-rw- 1 0 5 1, 300 \w{3} \d\d \d\d:\d\d null$|^crw-rw-rw- 1 0 5 1, 300 /,
  );
  assert.match(lines[1] ?? '', /^-\?{9} \? \? \? +\? +\? broken$/);
});

test('modes of every type begin with its letter', () => {
  const letters = { directory: 'd', file: '-', symlink: 'l', block: 'b', char: 'c', fifo: 'p' };
  for (const [kind, letter] of Object.entries(letters)) {
    assert.equal(formatMode(kind as ListedEntry['kind'], 0o640), `${letter}rw-r-----`);
  }
  assert.equal(formatMode('socket', 0o7000), 's--S--S--T');
});

test('a time beyond the calendar is shown as its seconds', () => {
  assert.equal(formatListTime({ seconds: 1e15, nanos: 0 }, 0), '1000000000000000');
});
