/** Golden archives written as tar, zip and pxar, and what other programs and our own reader make of them. */
import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { openPxar } from '../../src/archives/pxar/pxar-archive.ts';
import { readAtBuffer, readBytes } from '../../src/read-at.ts';
import { PxarFormat } from '../../src/transfer/pxar-format.ts';
import type { TransferReport } from '../../src/transfer/report.ts';
import type { Selection } from '../../src/transfer/selection.ts';
import type { Sink } from '../../src/transfer/sink.ts';
import { type OpenFormat, streamTree } from '../../src/transfer/stream-tree.ts';
import { TarFormat } from '../../src/transfer/tar-format.ts';
import { ZipFormat } from '../../src/transfer/zip-format.ts';
import type { BackupTree } from '../../src/tree/backup-tree.ts';
import type { Directory } from '../../src/tree/node.ts';
import { PxarRoot } from '../../src/tree/pxar-root.ts';
import { readGolden } from '../support/golden.ts';
import { needs } from '../support/requirements.ts';
import {
  goldenDirectory,
  goldenListing,
  isInMany,
  openGoldenTree,
  withoutMany,
} from './support/golden-archives.ts';
import { type ListedOnDisk, listDirectory } from './support/list-directory.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

const alpha = 'host/alpha/2023-11-14T22:13:20Z/root.pxar';
const everything = { patterns: [], stripComponents: 0 };

async function stream(
  root: Directory,
  open: (sink: Sink) => OpenFormat,
  selection: Selection = everything,
): Promise<{ bytes: Buffer; report: TransferReport }> {
  const parts: Buffer[] = [];
  // Taken over: a sink may get memory that is used again.
  const sink = { write: async (bytes: Uint8Array) => void parts.push(Buffer.from(bytes)) };
  const report = await streamTree(root, selection, open(sink));
  return { bytes: Buffer.concat(parts), report };
}

const tar =
  (sink: Sink): OpenFormat =>
  (report) =>
    new TarFormat(sink, report);
const zip =
  (sink: Sink): OpenFormat =>
  (report) =>
    new ZipFormat(sink, report);
const pxar =
  (sink: Sink): OpenFormat =>
  () =>
    new PxarFormat(sink);

/** @param timeless paths whose time does not count. */
function comparable(
  listing: readonly ListedOnDisk[],
  timeless: ReadonlySet<string>,
): Record<string, unknown>[] {
  return listing
    .map((entry) => {
      const { path, target, acl, mtime_ns, nlink, ...rest } = entry as ListedOnDisk &
        Record<string, unknown>;
      const known = entry.type === 'd' ? rest : { ...rest, nlink };
      return timeless.has(entry.path_b64) ? known : { ...known, mtime_ns };
    })
    .toSorted((a, b) => (a.path_b64 < b.path_b64 ? -1 : 1));
}

describe('a golden archive as a stream', { skip: needs('golden', 'root', 'python3') }, () => {
  let tree: BackupTree;
  before(async () => {
    tree = await openGoldenTree();
  });
  after(async () => {
    await tree[Symbol.asyncDispose]();
  });

  /** bsdtar takes -1.5 for -1 + 0.5, and leaves the time of the top alone. */
  const isMisread = ({ mtime_ns, path_b64 }: ListedOnDisk): boolean =>
    path_b64 === '' || (mtime_ns.startsWith('-') && !mtime_ns.endsWith('000000000'));
  const programs = {
    tar: {
      args: ['--xattrs', '--xattrs-include=*', '--acls', '--numeric-owner', '-xpf', '-'],
      hasRightTime: () => true,
    },
    bsdtar: {
      args: ['--numeric-owner', '-xpf', '-'],
      hasRightTime: (entry: ListedOnDisk) => !isMisread(entry),
    },
  };
  for (const [program, { args, hasRightTime }] of Object.entries(programs)) {
    test(`is extracted by ${program} as it was backed up`, { skip: needs(program) }, async () => {
      using temporary = temporaryDirectory();
      const { bytes, report } = await stream(await goldenDirectory(tree, alpha), tar, withoutMany);
      assert.deepEqual(report.failures, []);
      assert.deepEqual([...report.losses], [['sockets (tar has none)', 1]]);
      const target = temporary.join('t');
      mkdirSync(target);
      execFileSync(program, [...args, '-C', target], {
        input: bytes,
        env: { ...process.env, LC_ALL: 'C.UTF-8' },
        stdio: ['pipe', 'ignore', 'ignore'],
      });
      const expected = goldenListing('pxar-alpha-v1.json').filter(
        (entry) => entry.type !== 's' && !isInMany(entry),
      );
      const wrongTimes = new Set(
        expected.filter((entry) => !hasRightTime(entry)).map(({ path_b64 }) => path_b64),
      );
      assert.deepEqual(
        comparable(listDirectory(target), wrongTimes),
        comparable(expected, wrongTimes),
      );
    });
  }

  test('is extracted by unzip, whole seconds and owners', { skip: needs('unzip') }, async () => {
    using temporary = temporaryDirectory();
    const { bytes, report } = await stream(await goldenDirectory(tree, alpha), zip, withoutMany);
    assert.deepEqual(report.failures, []);
    assert.deepEqual([...report.losses].map(([what]) => what).toSorted(), [
      'device nodes, fifos and sockets (zip has none)',
      'extended attributes (zip has none)',
      'hard links (written as files of their own)',
    ]);
    writeFileSync(temporary.join('a.zip'), bytes);
    const unzip = ['-q', '-X', '-K', '-^', temporary.join('a.zip'), '-d', temporary.join('t')];
    const result = spawnSync('unzip', unzip, { env: { ...process.env, LC_ALL: 'C.UTF-8' } });
    assert.equal(result.stderr.toString(), '');
    const told = (entry: ListedOnDisk): unknown => {
      const { path_b64, type, uid, gid, size, sha256, target_b64, mtime_ns } = entry;
      const owner = type === 'l' ? [] : [uid, gid];
      const isInRange =
        !mtime_ns.startsWith('-') && mtime_ns.length === 19 && mtime_ns < '2147483647000000000';
      // unzip leaves the time of links alone.
      const time = type === 'l' || !isInRange ? [] : [mtime_ns.slice(0, -9)];
      return [
        path_b64,
        type,
        type === 'l' ? '' : entry.mode,
        owner,
        size,
        sha256,
        target_b64,
        time,
      ];
    };
    const isKept = (entry: ListedOnDisk): boolean =>
      entry.path_b64 !== '' && 'dfl'.includes(entry.type) && !isInMany(entry) && isUtf8Path(entry);
    const byPath = (a: ListedOnDisk, b: ListedOnDisk): number => (a.path_b64 < b.path_b64 ? -1 : 1);
    assert.deepEqual(
      listDirectory(temporary.join('t')).filter(isKept).toSorted(byPath).map(told),
      goldenListing('pxar-alpha-v1.json').filter(isKept).toSorted(byPath).map(told),
    );
  });

  test('is the same as a zip archive for Python', async () => {
    const { bytes } = await stream(await goldenDirectory(tree, alpha), zip, withoutMany);
    const script = [
      'import hashlib, io, json, sys, zipfile',
      'z = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))',
      'assert z.testzip() is None',
      'print(json.dumps(sorted(hashlib.sha256(z.read(i)).hexdigest() for i in z.infolist() if i.external_attr >> 28 == 8)))',
    ].join('\n');
    const hashes = JSON.parse(
      execFileSync('python3', ['-c', script], { input: bytes }).toString(),
    ) as string[];
    const expected = goldenListing('pxar-alpha-v1.json').filter((entry) => !isInMany(entry));
    assert.deepEqual(
      hashes,
      expected.flatMap(({ sha256 }) => (sha256 === undefined ? [] : [sha256])).toSorted(),
    );
  });

  test('comes out byte for byte when it is encoded again', async () => {
    for (const [path, raw] of [
      ['ct/110/2023-11-14T22:13:20Z/root.pxar', 'small.pxar'],
      ['host/alpha/2023-11-14T22:13:20Z/extra.pxar', 'extra.pxar'],
      ['host/emptyroot/2023-11-14T22:13:20Z/root.pxar', 'emptyroot.pxar'],
      // Split, encrypted: its streams hold the same tree.
      ['host/splitenc/2023-11-14T22:13:20Z/root.pxar', undefined],
    ] as const) {
      const { bytes, report } = await stream(await goldenDirectory(tree, path), pxar);
      assert.deepEqual([report.failures, [...report.losses]], [[], []]);
      if (raw !== undefined) assert.ok(bytes.equals(readGolden(`pxar-raw/${raw}`)), path);
      const archive = await openPxar(readAtBuffer(bytes));
      assert.ok((await archive.readDirectory(archive.root)).members.length >= 0);
    }
  });

  test('of 3,340 entries comes out as it is stored, flags and all', async () => {
    const root = await goldenDirectory(tree, alpha);
    assert.ok(root instanceof PxarRoot);
    await using stored = await root.openStored();
    assert.ok(stored);
    const { bytes } = await stream(root, pxar);
    assert.equal(bytes.length, stored.size);
    assert.ok(bytes.equals(await readBytes(stored, 0, stored.size)));
  });

  test('a directory of it becomes an archive of its own, hard links within it included', async () => {
    const { bytes } = await stream(await goldenDirectory(tree, `${alpha}/links`), pxar);
    const archive = await openPxar(readAtBuffer(bytes));
    const kinds = new Map<string, number>();
    for await (const step of archive.walk()) {
      const kind = step.step === 'leaf' ? step.entry.kind : step.step;
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    }
    assert.equal(kinds.get('damaged'), undefined);
    const inLinks = goldenListing('pxar-alpha-v1.json').filter(({ path_b64 }) =>
      Buffer.from(path_b64, 'base64').toString('latin1').startsWith('links/'),
    );
    const named = inLinks.filter(({ hardlink_group }) => hardlink_group !== undefined);
    const groups = new Set(named.map(({ hardlink_group }) => String(hardlink_group)));
    assert.ok(groups.size > 1);
    assert.equal(kinds.get('hardlink'), named.length - groups.size);
    assert.equal(kinds.get('symlink'), inLinks.filter(({ type }) => type === 'l').length);
  });
});

function isUtf8Path({ path_b64 }: ListedOnDisk): boolean {
  return isUtf8(Buffer.from(path_b64, 'base64'));
}
