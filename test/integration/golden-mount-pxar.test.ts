/** Archives of the golden datastore in a mount: every field, and what tools make of them. */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readGolden } from '../support/golden.ts';
import {
  goldenKeyArgs,
  mountStore,
  run,
  runBinary,
  type StoreMount,
} from '../support/golden-mount.ts';
import { temporaryDirectory, tool } from '../support/mount-fixture.ts';
import { expectedListing, type ListedEntry, sortByPath } from '../support/pxar-listing.ts';
import { needs } from '../support/requirements.ts';
import { type WalkedEntry, walkMount } from '../support/walk-mount.ts';
import { goldenArchives } from '../transfer/support/golden-archives.ts';

const skip = needs('golden', 'fuse', 'root', 'python3');
const timeout = 120_000;
const alpha = 'host/alpha/2023-11-14T22:13:20Z/root.pxar';
/** The same tree in chunks of 128 KiB, and with the contents in a stream of their own. */
const alphaChunks = 'host/alphachunks/2023-11-14T22:13:20Z/root.pxar';
const alphaSplit = 'host/split/2023-11-14T22:13:20Z/root.pxar';

/** Two of the four archives with a directory of the same 3,000 files: seen twice is enough. */
const knownMany = ['host/alpha/2023-11-15T22:13:20Z/root.pxar', alphaChunks];

function withoutMany(entries: readonly ListedEntry[]): readonly ListedEntry[] {
  return entries.filter((entry) => !pathOf(entry).startsWith('many/'));
}

function expectedArchives(): ReadonlyMap<string, readonly ListedEntry[]> {
  const archives = new Map([...goldenArchives()].map(([path, file]) => [path, expected(file)]));
  const small = expected('pxar-small.json');
  return archives
    .set(alphaSplit, withoutUnsaved(expected('source-alpha-v1.json')))
    .set('host/split/2023-11-15T22:13:20Z/root.pxar', small)
    .set('host/splitenc/2023-11-14T22:13:20Z/root.pxar', small);
}

function expected(file: string): readonly ListedEntry[] {
  return sortByPath(expectedListing(file)).map(comparable);
}

/** The writer of the golden split archives saved no ACLs, and hard links of files alone. */
function withoutUnsaved(entries: readonly ListedEntry[]): readonly ListedEntry[] {
  return entries.map(({ hardlink_group: group, xattrs_b64: xattrs = {}, ...entry }) => {
    const kept = Object.entries(xattrs).filter(([name]) => !/posix_acl|fixture/.test(name));
    const isFile = entry.type === 'f';
    return {
      ...entry,
      nlink: isFile || entry.type === 'd' ? entry.nlink : 1,
      ...(isFile && group !== undefined ? { hardlink_group: group } : {}),
      ...(kept.length > 0 ? { xattrs_b64: Object.fromEntries(kept) } : {}),
    };
  });
}

/** Without inode numbers, which are the mount's own. */
function comparable(entry: ListedEntry | WalkedEntry): ListedEntry {
  const { ino: _, blocks: __, xattrs_b64: all = {}, ...rest } = { ino: 0, blocks: 0, ...entry };
  const xattrs = Object.entries(all);
  return {
    ...rest,
    ...(xattrs.length > 0 ? { xattrs_b64: Object.fromEntries(xattrs.sort()) } : {}),
  };
}

function assertSame(
  found: readonly WalkedEntry[],
  wanted: readonly ListedEntry[],
  what: string,
): void {
  assert.deepEqual(found.map(pathOf), wanted.map(pathOf), what);
  for (const [index, entry] of found.entries()) {
    assert.deepEqual(comparable(entry), wanted[index], `${what}: ${pathOf(entry)}`);
  }
}

function pathOf({ path_b64: path }: ListedEntry): string {
  return Buffer.from(path, 'base64').toString('latin1');
}

describe('golden archives in a mount', { skip, timeout }, () => {
  let mount: StoreMount;
  let archives: ReadonlyMap<string, readonly ListedEntry[]>;
  const walked = new Map<string, readonly WalkedEntry[]>();

  const resources = new AsyncDisposableStack();
  before(async () => {
    archives = expectedArchives();
    mount = resources.use(await mountStore(goldenKeyArgs));
  });
  after(() => resources.disposeAsync());

  test('every archive is what the real client restored, in every field', async () => {
    assert.equal(archives.size, 17);
    const trees = await walkMount(
      ...[...archives.keys()].map((path) => {
        return { path: mount.at(path), ...(knownMany.includes(path) ? { unlisted: 'many' } : {}) };
      }),
    );
    for (const [index, [path, wanted]] of [...archives].entries()) {
      assertSame(trees[index] ?? [], knownMany.includes(path) ? withoutMany(wanted) : wanted, path);
      walked.set(path, trees[index] ?? []);
    }
  });

  test('inode numbers are shared by the names of one file and by nothing else', () => {
    const files = new Set<string>();
    const numbers = new Set<number>();
    for (const [archive, entries] of walked) {
      for (const { ino, path_b64: path, hardlink_group: [first = path] = [] } of entries) {
        files.add(`${archive} ${first}`);
        numbers.add(ino);
      }
    }
    assert.ok(files.size > 7000);
    assert.equal(numbers.size, files.size);
  });

  test('blocks cover the content of each file', () => {
    for (const { blocks = 0, size = 0, sha256 } of walked.get(alpha) ?? []) {
      if (sha256 !== undefined) assert.equal(blocks, Math.ceil(size / 512));
    }
  });

  test('find knows the names of a file, and types, sizes and links', async () => {
    const root = mount.at(alpha);
    const same = await run('find', root, '-samefile', join(root, 'aa-hard-0'), '-printf', '%P\\n');
    assert.deepEqual(same.split('\n').sort().slice(1), [
      'aa-hard-0',
      'links/hard-a',
      'links/hard-b',
      'links/sub/hard-c',
      'zz-hard-d',
    ]);
    const found = await runBinary('find', root, '-printf', '%y %s %n %m %U:%G %l\\0');
    const wanted = archives.get(alpha)?.map((entry) => {
      const target = Buffer.from(entry.target_b64 ?? '', 'base64').toString('latin1');
      const size = entry.size ?? target.length;
      return `${entry.type} ${size} ${entry.nlink} ${entry.mode} ${entry.uid}:${entry.gid} ${target}`;
    });
    const lines = found.toString('latin1').split('\0').slice(0, -1);
    assert.deepEqual(lines.toSorted(), wanted?.toSorted());
  });

  test('getfacl shows the lists that were backed up', { skip: needs('getfacl') }, async () => {
    const entries = JSON.parse(readGolden('expected/pxar-alpha-v1.json').toString()) as {
      readonly path: string;
      readonly acl?: readonly string[];
    }[];
    const listed = entries.filter(({ acl }) => acl !== undefined);
    assert.ok(listed.length >= 6);
    for (const { path, acl } of listed) {
      const shown = await run('getfacl', '-cnpE', mount.at(alpha, path));
      assert.deepEqual(shown.trim().split('\n'), acl, path);
    }
    const all = await run('getfacl', '-RnpcsE', mount.at(alpha));
    assert.equal(all.match(/^user::/gm)?.length, listed.length);
  });

  test('getfattr and getcap show what was backed up', {
    skip: needs('getfattr', 'getcap'),
  }, async () => {
    const path = mount.at(alpha, 'attrs/all');
    const dump = await run('getfattr', '-d', '-m-', '-e', 'base64', '--absolute-names', path);
    const wanted = archives.get(alpha)?.find((entry) => pathOf(entry) === 'attrs/all');
    const lines = Object.entries(wanted?.xattrs_b64 ?? {}).map(
      ([key, value]) => `${key}=0s${value}`,
    );
    assert.equal(lines.length, 4);
    assert.deepEqual(dump.trim().split('\n').slice(1).sort(), lines.sort());
    assert.match(await run('getcap', '-n', mount.at(alpha, 'attrs/caps-rootid')), /rootid=100000/);
  });

  test('ls and du get through it, and say the same again', async () => {
    const listing = (): Promise<string> =>
      run('ls', '-lRin', '--time-style=full-iso', mount.at(alpha));
    const first = await listing();
    assert.equal(await listing(), first);
    const entries = archives.get(alpha) ?? [];
    assert.ok(first.split('\n').length > entries.length);
    const once = entries.filter(
      ({ path_b64: path, hardlink_group: [name = path] = [] }) => name === path,
    );
    const bytes = once.reduce((sum, { size = 0, target_b64: target = '' }) => {
      return sum + size + Buffer.from(target, 'base64').length;
    }, 0);
    assert.equal(parseInt(await run('du', '-sb', mount.at(alpha)), 10), bytes);
  });

  test('a directory of 3,000 names can be rewound and entered in the middle', {
    skip: needs('perl'),
  }, async () => {
    const script = `
opendir(my $d, $ARGV[0]) or die $!; my (@names, @places);
while (1) { my $place = telldir $d; defined(my $name = readdir $d) or last; push @names, $name; push @places, $place }
rewinddir $d; my @again = readdir $d; my $wrong = "@again" ne "@names";
for my $i (2999, 1500, 7, 2000) { seekdir $d, $places[$i]; $wrong ||= readdir($d) ne $names[$i] }
my %seen = map { $_ => 1 } @names; print scalar(@names), " ", scalar(keys %seen), " ", $wrong ? "wrong" : "right";
`;
    const many = (archives.get(alpha) ?? []).filter((entry) => pathOf(entry).startsWith('many/'));
    const count = many.length + 2;
    const shown = await run('perl', '-e', script, mount.at(alpha, 'many'));
    assert.equal(shown, `${count} ${count} right`);
  });

  test('the same tree from other chunks and from a split archive is the same', {
    skip: needs('rsync', 'diff'),
  }, async () => {
    const [one = '', other = '', split = ''] = [alpha, alphaChunks, alphaSplit].map((path) =>
      mount.at(path),
    );
    // What the command lines of the two backups left out; and the walk above saw the 3,000 files.
    const unlike = ['/.pxarexclude-cli', '/excl', '/mnt', '/many/*'].map(
      (path) => `--exclude=${path}`,
    );
    const flags = ['-aHAXnci', '--delete', ...unlike];
    assert.equal(await run('rsync', ...flags, `${one}/`, `${other}/`), '');
    const options = ['special', 'mnt', 'excl', '.pxarexclude-cli', 'many'].flatMap((name) => [
      '-x',
      name,
    ]);
    assert.equal(await run('diff', '-r', '--no-dereference', ...options, one, split), '');
  });

  test('cp, rsync and tar bring it back whole', { skip: needs('rsync', 'tar') }, async () => {
    await using folder = await temporaryDirectory();
    const source = mount.at(alpha);
    const target = (name: string): string => join(folder.path, name);
    await run('cp', '-a', source, target('cp'));
    // One copy of the 3,000 files is enough.
    await run('rsync', '-aHAX', '--exclude=/many/*', `${source}/`, target('rsync'));
    const xattrs = ['--xattrs', '--xattrs-include=*', '--acls', '--numeric-owner'];
    const pack = [...xattrs, '--exclude=./many/*', '-C', source, '-cf', target('archive'), '.'];
    const packed = await tool('tar', ...pack);
    assert.equal(packed.stderr, 'tar: ./special/socket: socket ignored\n');
    await mkdir(target('tar'));
    const unpack = ['--warning=no-timestamp', '-C', target('tar'), '-xpf', target('archive')];
    await run('tar', ...xattrs, ...unpack);
    const [cp = [], rsync = [], tar = []] = await walkMount(
      ...['cp', 'rsync', 'tar'].map((name) => ({ path: target(name) })),
    );
    const wanted = archives.get(alpha) ?? [];
    assertSame(cp, wanted, 'cp');
    const few = withoutMany(wanted);
    assertSame(rsync, few, 'rsync');
    assertSame(
      tar,
      few.filter(({ type }) => type !== 's'),
      'tar',
    );
  });

  test('nothing of all this was worth a line in the log', () => {
    assert.equal(mount.served.stderr, '');
  });
});

test('small archives are the same by fuse-native, but for what libfuse cannot show', {
  skip: skip || needs('fuse-native'),
  timeout,
}, async () => {
  await using mount = await mountStore(['--driver', 'fuse-native', ...goldenKeyArgs]);
  const shown = (entry: ListedEntry): object => {
    const { mtime_ns: time, hardlink_group: _, ...rest } = comparable(entry);
    return { ...rest, milliseconds: time.slice(0, -6) };
  };
  const wanted = expected('pxar-small.json').map(shown);
  const times = ['ct/110/2023-11-14', 'host/enc/2023-11-14', 'host/splitenc/2023-11-14'];
  const trees = await walkMount(
    ...times.map((snapshot) => ({ path: mount.at(`${snapshot}T22:13:20Z/root.pxar`) })),
  );
  for (const tree of trees) assert.deepEqual(tree.map(shown), wanted);
});
