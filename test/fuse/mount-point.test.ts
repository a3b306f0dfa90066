import assert from 'node:assert/strict';
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { formatError } from '../../src/errors.ts';
import { parseDescriptor, prepareMountPoint } from '../../src/fuse/mount-point.ts';
import { MountRefused, mountTestTree } from '../support/mount-fixture.ts';
import { needs } from '../support/requirements.ts';

let scratch: string;
before(async () => {
  scratch = await realpath(await mkdtemp(join(tmpdir(), 'pbsfs-point-')));
  await mkdir(join(scratch, 'empty'));
  await mkdir(join(scratch, 'full', 'below'), { recursive: true });
  await writeFile(join(scratch, 'file'), '');
  await symlink('empty', join(scratch, 'link'));
});
after(async () => {
  await rm(scratch, { recursive: true });
});

async function refusal(
  directory: string,
  options = {},
): Promise<{ code: string; message: string }> {
  try {
    await prepareMountPoint(directory, options);
  } catch (error) {
    assert.ok(error instanceof Error && 'code' in error);
    return { code: String(error.code), message: formatError(error) };
  }
  return assert.fail('was accepted');
}

test('gives the absolute path of an empty directory, through links and from a relative path', async () => {
  const empty = join(scratch, 'empty');
  assert.equal(await prepareMountPoint(empty), empty);
  assert.equal(await prepareMountPoint(`${empty}/../link/`), empty);
});

test('refuses what does not exist, with the command that makes it', async () => {
  const path = join(scratch, 'absent');
  assert.deepEqual(await refusal(path), {
    code: 'not-found',
    message: `${path}: the mount point does not exist (make it: mkdir -p ${path})`,
  });
});

test('refuses a file, and a path through a file', async () => {
  const file = join(scratch, 'file');
  const { code, message } = await refusal(file);
  assert.equal(code, 'not-directory');
  assert.equal(message, `${file}: the mount point is not a directory`);
  assert.equal((await refusal(join(file, 'below'))).code, 'not-directory');
});

test('refuses a directory with files, unless told that they may be hidden', async () => {
  const path = join(scratch, 'full');
  assert.deepEqual(await refusal(path), {
    code: 'usage',
    message: `${path}: the mount point is not empty, its files would be hidden (take an empty directory, or -o nonempty)`,
  });
  assert.equal(await prepareMountPoint(path, { nonempty: true }), path);
});

test('refuses a mount point within a datastore, and one above it', async () => {
  const full = join(scratch, 'full');
  const below = join(full, 'below');
  for (const [mountPoint, datastore] of [
    [below, full],
    [full, below],
    [full, full],
  ] as const) {
    const options = { keepApart: [datastore], nonempty: true };
    const { code, message } = await refusal(mountPoint, options);
    assert.equal(code, 'usage');
    assert.match(message, /lie within each other/);
  }
  const empty = join(scratch, 'empty');
  assert.equal(await prepareMountPoint(empty, { keepApart: [`${empty}-not`, full] }), empty);
});

test('refuses a live mount of ours', { skip: needs('fuse', 'root'), timeout: 60_000 }, async () => {
  await using mount = await mountTestTree({ source: 'first' });
  const { code, message } = await refusal(mount.path);
  assert.equal(code, 'usage');
  assert.equal(
    message,
    `${mount.path}: first is mounted here already (unmount it first: pbsfs umount ${mount.path})`,
  );
  await assert.rejects(mountTestTree({ mountPoint: mount.path }), (error) => {
    assert.ok(error instanceof MountRefused);
    return error.code === 'usage';
  });
});

test('knows the mount points that stand for a descriptor', () => {
  assert.equal(parseDescriptor('/dev/fd/3'), 3);
  for (const path of ['/dev/fd/', '/dev/fd/3/', '/dev/fd/x', '/mnt/dev/fd/3', '/dev/fd/-1']) {
    assert.equal(parseDescriptor(path), undefined);
  }
});
