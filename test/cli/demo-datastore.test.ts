/** The datastore of the demo, looked at by plain means: what is written is what PBS would have written. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { type DemoDatastore, writeDemoDatastore } from '../../src/cli/demo-datastore.ts';

const folder = mkdtempSync(join(tmpdir(), 'pbsfs-demo-test-'));
let demo: DemoDatastore;

before(async () => {
  demo = await writeDemoDatastore(folder);
});
after(() => rmSync(folder, { recursive: true }));

function list(...path: string[]): string[] {
  return readdirSync(join(demo.path, ...path)).sort();
}

function chunkFiles(): string[] {
  return list('.chunks').flatMap((prefix) => list('.chunks', prefix));
}

test('two virtual machines have three snapshots, a day apart', () => {
  assert.deepEqual(list('vm'), ['100', '200']);
  const [older = '', newer = '', owner] = list('vm', '100');
  assert.equal(owner, 'owner');
  assert.equal(Date.parse(newer) - Date.parse(older), 86_400_000);
  assert.equal(list('vm', '200').length, 2);
});

test('an index names each chunk, the repeated one twice, and its checksum is right', () => {
  const [older = ''] = list('vm', '100');
  const index = readFileSync(join(demo.path, 'vm/100', older, 'drive-scsi0.img.fidx'));
  const entries = index.subarray(4096);
  assert.equal(entries.length, 6 * 32);
  assert.ok(entries.subarray(0, 32).equals(entries.subarray(3 * 32, 4 * 32)));
  const csum = createHash('sha256').update(entries).digest();
  assert.ok(index.subarray(32, 64).equals(csum));
  // The digest of 4 MiB of zeros.
  const zeros = 'bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8';
  assert.equal(entries.subarray(64, 96).toString('hex'), zeros);
});

test('the second backup stores one chunk more, and the store each chunk once', () => {
  // 5 different chunks, the changed one, and the encrypted one.
  assert.equal(new Set(chunkFiles()).size, 7);
  assert.equal(chunkFiles().length, 7);
});

test('every chunk carries its CRC, and every plain one its digest as its name', () => {
  for (const name of chunkFiles()) {
    const raw = readFileSync(join(demo.path, '.chunks', name.slice(0, 4), name));
    const isEncrypted = ['7b6785be222d4cf0', 'e6591bbf0bbfd80b'].includes(
      raw.toString('hex', 0, 8),
    );
    const payload = raw.subarray(isEncrypted ? 44 : 12);
    assert.equal(raw.readUInt32LE(8), crc32(payload));
    const isPlain = raw.toString('hex', 0, 8) === '42ab3807be8370a1';
    if (isPlain) assert.equal(createHash('sha256').update(payload).digest('hex'), name);
  }
});

test('the key file is for its owner only', () => {
  assert.equal(statSync(demo.keyFile).mode & 0o777, 0o600);
});
