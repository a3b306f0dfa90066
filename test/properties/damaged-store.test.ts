/**
 * The tenet that matters most, over the whole path from files on disk to bytes of the tree: whatever happens to
 * one file of a datastore, each file of each snapshot reads as it was backed up or fails with our own error.
 */
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { KeyRing } from '../../src/archives/key-ring.ts';
import { isPbsfsError } from '../../src/errors.ts';
import { CryptConfig } from '../../src/formats/crypt-config.ts';
import { silentLogger } from '../../src/log.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import { openBackupTree } from '../../src/tree/backup-tree.ts';
import type { Directory, File } from '../../src/tree/node.ts';
import { temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';

const key = Buffer.alloc(32, 9);
const mebibyte = 1024 * 1024;

/** Different in every chunk, so that a swap shows. */
function disk(seed: number, size: number): Buffer {
  const bytes = Buffer.alloc(size);
  for (let at = 0; at + 4 <= size; at += 4) bytes.writeUInt32LE((at * 31 + seed) >>> 0, at);
  return bytes;
}

let pristine: ReturnType<typeof temporaryDatastore>;
let original: ReadonlyMap<string, string>;
let stored: readonly string[];

before(async () => {
  pristine = temporaryDatastore();
  const chunkSize = 64 * 1024;
  for (const [index, snapshot] of [
    { group: 'vm/100' },
    { group: 'vm/200', key },
    { group: 'ns/a/ct/1' },
  ].entries()) {
    for (const time of [1_700_000_000, 1_700_086_400]) {
      writeSnapshot(pristine.path, {
        ...snapshot,
        time,
        images: {
          'drive-scsi0.img': { data: disk(time + index, 300_001), chunkSize },
          'drive-zero.img': { data: Buffer.alloc(mebibyte), chunkSize },
        },
        archives: { 'catalog.pcat1': disk(time - index, 70_000) },
        blobs: {
          'qemu-server.conf': Buffer.from(`name: ${time} ${index}\n`.repeat(30)),
          'fw.conf': disk(1, 50),
        },
      });
    }
  }
  stored = readdirSync(pristine.path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== '.lock')
    .map((entry) => join(entry.parentPath, entry.name).slice(pristine.path.length + 1))
    .sort();
  original = await readAll(pristine.path);
  assert.equal([...original.values()].filter((text) => text.startsWith('error')).length, 0);
  assert.ok(original.size >= 30, `${original.size} files`);
});

after(() => pristine[Symbol.dispose]());

/** Every file below the root: its content, or the error that reading it gave. */
async function readAll(store: string): Promise<Map<string, string>> {
  const contents = new Map<string, string>();
  await using tree = openBackupTree(await openDatastore(store), {
    keys: new KeyRing([new CryptConfig(key)]),
    cacheChunks: 1,
    concurrency: 2,
    logger: silentLogger,
  });
  await walk(tree.root, '', contents);
  return contents;
}

async function attempt(
  path: string,
  contents: Map<string, string>,
  action: () => Promise<void>,
): Promise<void> {
  try {
    await action();
  } catch (error) {
    assert.ok(isPbsfsError(error) && error.code !== 'bug', `${path}: ${error}`);
    contents.set(path, `error ${error.code}`);
  }
}

async function walk(
  directory: Directory,
  path: string,
  contents: Map<string, string>,
): Promise<void> {
  await attempt(path, contents, async () => {
    for (const { name } of await directory.list()) {
      const child = `${path}/${name}`;
      await attempt(child, contents, async () => {
        const node = await directory.lookup(name);
        if (node?.kind === 'directory') await walk(node, child, contents);
        if (node?.kind === 'file') contents.set(child, await readFile(node));
      });
    }
  });
}

async function readFile(file: File): Promise<string> {
  await using open = await file.open();
  const slices: Uint8Array[] = [];
  for (let at = 0; at < open.size; at += 100_000) slices.push(...(await open.read(at, 100_000)));
  const bytes = Buffer.concat(slices);
  assert.equal(bytes.length, open.size);
  return bytes.toString('latin1');
}

type Damage =
  | { readonly kind: 'flip'; readonly at: number; readonly bit: number }
  | { readonly kind: 'cut'; readonly at: number }
  | { readonly kind: 'grow'; readonly bytes: Uint8Array }
  | { readonly kind: 'replace'; readonly by: number }
  | { readonly kind: 'random'; readonly bytes: Uint8Array }
  | { readonly kind: 'remove' };

const damage: fc.Arbitrary<Damage> = fc.oneof(
  fc.record({
    kind: fc.constant('flip' as const),
    at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
    bit: fc.nat(7),
  }),
  fc.record({
    kind: fc.constant('cut' as const),
    at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
  }),
  fc.record({
    kind: fc.constant('grow' as const),
    bytes: fc.uint8Array({ minLength: 1, maxLength: 80 }),
  }),
  fc.record({ kind: fc.constant('replace' as const), by: fc.nat() }),
  fc.record({ kind: fc.constant('random' as const), bytes: fc.uint8Array({ maxLength: 5000 }) }),
  fc.record({ kind: fc.constant('remove' as const) }),
);

/** What the file holds afterwards; undefined where it is gone. */
function damaged(bytes: Buffer, how: Damage): Uint8Array | undefined {
  switch (how.kind) {
    case 'flip': {
      const at = Math.floor(how.at * bytes.length);
      const copy = Buffer.from(bytes);
      if (at < copy.length) copy[at] = (copy[at] ?? 0) ^ (1 << how.bit);
      return copy;
    }
    case 'cut':
      return bytes.subarray(0, Math.floor(how.at * bytes.length));
    case 'grow':
      return Buffer.concat([bytes, how.bytes]);
    case 'replace':
      return readFileSync(join(pristine.path, stored[how.by % stored.length] ?? ''));
    case 'random':
      return how.bytes;
    case 'remove':
      return undefined;
  }
}

function inflict(store: string, file: string, how: Damage): void {
  const path = join(store, file);
  const bytes = damaged(readFileSync(path), how);
  if (bytes === undefined) rmSync(path);
  else writeFileSync(path, bytes);
}

/** Notes of the server live in the manifest and nothing vouches for them; a plain manifest vouches for itself. */
function isVouchedFor(path: string): boolean {
  return !path.endsWith('/index.json');
}

test('a damaged file in the datastore never makes any file read as other bytes', async () => {
  const failed = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.nat(), damage, async (which, how) => {
      const store = mkdtempSync(join(tmpdir(), 'pbsfs-damaged-'));
      try {
        cpSync(pristine.path, store, { recursive: true });
        inflict(store, stored[which % stored.length] ?? '', how);
        for (const [path, content] of await readAll(store)) {
          if (content.startsWith('error')) failed.add(content);
          else if (isVouchedFor(path)) assert.equal(content, original.get(path), path);
        }
      } finally {
        rmSync(store, { recursive: true, force: true });
      }
    }),
    { numRuns: 60 },
  );
  assert.ok(failed.has('error corrupt') && failed.has('error chunk-missing'), [...failed].join());
});
