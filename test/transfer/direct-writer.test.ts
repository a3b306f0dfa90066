import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { DirectWriter } from '../../src/transfer/direct-writer.ts';
import { DiskTarget } from '../../src/transfer/disk-target.ts';
import { needs } from '../support/requirements.ts';

const block = 4096;
const slot = 4 * 1024 * 1024;
/** `TMPFS_MAGIC` of statfs(2): a filesystem that is nothing but page cache. */
const tmpfs = 0x0102_1994;

function temporaryPath(context: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'pbsfs-direct-'));
  context.after(() => rmSync(directory, { recursive: true }));
  return join(directory, 'file');
}

/** Bytes of a file that are in the page cache, as fincore(1) tells. */
function cachedBytes(path: string): number {
  return Number(execFileSync('fincore', ['-b', '-n', '-o', 'RES', path], { encoding: 'utf8' }));
}

test('whole blocks are written, several at once, from any address', async (t) => {
  const path = temporaryPath(t);
  await using file = await open(path, 'wx+');
  await using writer = await DirectWriter.open(file);
  assert.ok(writer);
  const content = randomBytes(6 * slot + 3 * block);
  // Neither an aligned address nor the size of a slot.
  const step = 700 * block;
  const parts = Array.from({ length: Math.ceil(content.length / step) }, (_, i) => i * step);
  const written = await Promise.all(
    parts.map((at) => {
      const copy = Buffer.alloc(step + 3).subarray(3);
      const length = content.copy(copy, 0, at, at + step);
      return writer.write(copy.subarray(0, length), at);
    }),
  );
  assert.equal(
    written.reduce((sum, length) => sum + length, 0),
    content.length,
  );
  assert.ok(readFileSync(path).equals(content));
});

test('what is no whole block is left to the caller', async (t) => {
  await using file = await open(temporaryPath(t), 'wx+');
  await using writer = await DirectWriter.open(file);
  assert.ok(writer);
  assert.equal(await writer.write(randomBytes(block), 512), 0);
  assert.equal(await writer.write(randomBytes(block - 1), 0), 0);
  assert.equal((await file.stat()).size, 0);
  assert.equal(await writer.write(randomBytes(2 * block + 1), block), 2 * block);
  assert.equal((await file.stat()).size, 3 * block);
});

test('a target writes all of it, whatever its offset and its length', async (t) => {
  const path = temporaryPath(t);
  const content = randomBytes(3 * slot + 777);
  await using target = new DiskTarget(await open(path, 'wx+'), path, { zeros: 'there' });
  for (const [start, end] of [
    [0, 100],
    [100, slot],
    [slot, 2 * slot + 5],
    [2 * slot + 5, 3 * slot],
    [3 * slot, content.length],
  ] as const) {
    await target.write(content.subarray(start, end), start);
  }
  await target.sync();
  assert.ok(readFileSync(path).equals(content));
});

test('the page cache is not filled', {
  skip: statfsSync(tmpdir()).type === tmpfs || needs('fincore'),
}, async (t) => {
  const path = temporaryPath(t);
  await using target = new DiskTarget(await open(path, 'wx+'), path, { zeros: 'there' });
  await target.write(randomBytes(2 * slot), 0);
  assert.equal(cachedBytes(path), 0);
});

test('a filesystem that has no such writes gets ordinary ones', {
  skip: needs('root'),
}, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'pbsfs-ramfs-'));
  execFileSync('mount', ['-t', 'ramfs', 'ramfs', directory]);
  t.after(() => {
    execFileSync('umount', ['-l', directory]);
    rmSync(directory, { recursive: true });
  });
  const path = join(directory, 'file');
  const file = await open(path, 'wx+');
  assert.equal(await DirectWriter.open(file), undefined);
  const content = randomBytes(slot + 1);
  await using target = new DiskTarget(file, path, { zeros: 'there' });
  await target.write(content, 0);
  assert.ok(readFileSync(path).equals(content));
});
