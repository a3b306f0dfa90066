/** The archives of the reference encoder, entry by entry, against what the reference reader reports. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { openPxar, type PxarArchive } from '../../../src/archives/pxar/pxar-archive.ts';
import type { PxarEntry } from '../../../src/formats/pxar/entry.ts';
import { readAtBuffer } from '../../../src/read-at.ts';
import { readGolden } from '../../support/golden.ts';
import { type ExpectedEntry, expectedEntries, expectedOffsets } from '../../support/golden-pxar.ts';
import { describeEntry, listAll, walkAll } from '../../support/read-pxar.ts';
import { needs } from '../../support/requirements.ts';

const archives = ['v1', 'v2', 'v2-prelude', 'v2-reuse'];

async function open(name: string): Promise<PxarArchive> {
  const read = (end: string) => readAtBuffer(readGolden(`v2/rust/${name}.${end}`));
  return name === 'v1'
    ? await openPxar(read('pxar'))
    : await openPxar(read('mpxar'), read('ppxar'));
}

/** As in expected.json: the root is a slash. */
function keyOf(path_b64: string): string {
  return Buffer.from(path_b64, 'base64').toString('latin1').slice(1);
}

const kinds: Readonly<Record<ExpectedEntry['type'], PxarEntry['kind']>> = {
  dir: 'directory',
  file: 'file',
  symlink: 'symlink',
  hardlink: 'hardlink',
  chr: 'char',
  blk: 'block',
  fifo: 'fifo',
  sock: 'socket',
};

function aclXattrs(): Map<string, string[]> {
  const { acl_xattr } = JSON.parse(readGolden('v2/vectors.json').toString()) as {
    acl_xattr: (Record<string, string> & { path: string })[];
  };
  return new Map(
    acl_xattr.map(({ path, ...xattrs }) => [
      path.slice(1),
      Object.entries(xattrs).map(([name, value]) => `${name} ${fromBase64(value)}`),
    ]),
  );
}

function fromBase64(value: string): string {
  return Buffer.from(value, 'base64').toString('hex');
}

for (const name of archives) {
  test(`every field of every entry of ${name} is as expected`, {
    skip: needs('golden'),
  }, async () => {
    const archive = await open(name);
    const found = new Map((await listAll(archive)).map(({ path, entry }) => [path, entry]));
    const acls = aclXattrs();
    const expectedByPath = new Map(
      expectedEntries().map((entry) => [keyOf(entry.path_b64), entry]),
    );
    assert.deepEqual([...found.keys()].sort(), [...expectedByPath.keys()].sort());
    for (const [path, listed] of expectedByPath) {
      const entry = found.get(path);
      assert.ok(entry, path);
      assert.equal(entry.kind, kinds[listed.type], path);
      const target = Buffer.from(listed.link_target_path_b64 ?? '', 'base64').toString('latin1');
      const expected = entry.kind === 'hardlink' ? expectedByPath.get(target) : listed;
      assert.ok(expected, path);
      const { content, ...described } = await describeEntry(archive, entry);
      const xattrs = Object.entries(expected.xattrs).map(
        ([key, value]) => `${key} ${fromBase64(value)}`,
      );
      if (expected.fcaps_b64 !== undefined) {
        xattrs.push(`security.capability ${fromBase64(expected.fcaps_b64)}`);
      }
      xattrs.push(...(acls.get(path) ?? []));
      assert.deepEqual(
        described,
        {
          kind: kinds[expected.type],
          mode: Number.parseInt(expected.mode, 8),
          flags: expected.flags,
          uid: expected.uid,
          gid: expected.gid,
          mtime: { seconds: expected.mtime_s, nanos: expected.mtime_nanos },
          quotaProjectId: expected.quota_project_id,
          xattrs: xattrs.sort(),
          ...(expected.type === 'file' ? { size: expected.size } : {}),
          ...(expected.link_target_b64 === undefined
            ? {}
            : { target: Buffer.from(expected.link_target_b64, 'base64') }),
          ...(expected.rdev === undefined
            ? {}
            : { rdev: { major: expected.rdev.major, minor: expected.rdev.minor } }),
        },
        path,
      );
      if (expected.sha256 !== undefined) {
        assert.ok(content instanceof Buffer);
        assert.equal(hash('sha256', content), expected.sha256, path);
      }
    }
  });

  test(`every offset of ${name} is that of the reference reader`, {
    skip: needs('golden'),
  }, async () => {
    const archive = await open(name);
    const found = new Map((await listAll(archive)).map(({ path, entry }) => [path, entry]));
    for (const expected of expectedOffsets(name)) {
      const path = keyOf(expected.path_b64);
      const entry = found.get(path);
      assert.ok(entry, path);
      assert.equal(entry.position, expected.filename_header_offset ?? 0, path);
      if (entry.kind === 'directory') assert.equal(entry.end, expected.entry_end, path);
      if (entry.kind === 'hardlink') {
        assert.equal(entry.position - entry.targetPosition, expected.hardlink_offset, path);
      }
      if (entry.kind !== 'file') continue;
      const { offset } = await archive.locateContent(entry);
      const reference = (expected.payload_ref_offset ?? 0) + 16;
      assert.equal(offset, archive.isSplit ? reference : expected.raw_offset, path);
    }
  });

  test(`a pass over ${name} meets the same entries as its goodbye tables`, {
    skip: needs('golden'),
  }, async () => {
    const archive = await open(name);
    const places = (found: Awaited<ReturnType<typeof listAll>>) =>
      found.map(({ path, entry }) => [path, entry.kind, entry.position]);
    assert.deepEqual(places(await walkAll(archive)), places(await listAll(archive)));
  });

  test(`every name of ${name} is found in its directory, and no other`, {
    skip: needs('golden'),
  }, async () => {
    const archive = await open(name);
    for (const { path, entry } of await listAll(archive)) {
      if (entry.parent === undefined) continue;
      assert.deepEqual(await archive.lookup(entry.parent, entry.name), entry, path);
      const other = Buffer.concat([entry.name, Buffer.from('~')]);
      assert.equal(await archive.lookup(entry.parent, other), undefined, path);
    }
  });
}

test('the prelude is what the client noted', { skip: needs('golden') }, async () => {
  assert.equal((await open('v2')).formatVersion, 2);
  assert.equal(await (await open('v2')).readPrelude(), undefined);
  const prelude = await (await open('v2-prelude')).readPrelude();
  assert.ok(prelude);
  assert.deepEqual(Object.keys(JSON.parse(prelude.toString()) as object), ['exclude-patterns']);
});
