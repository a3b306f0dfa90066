/** The tree over the golden datastore, node by node, against what the real client restored. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { KeyRing } from '../../src/archives/key-ring.ts';
import { isPbsfsError } from '../../src/errors.ts';
import { silentLogger } from '../../src/log.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import { type BackupTree, openBackupTree } from '../../src/tree/backup-tree.ts';
import type { File, Node } from '../../src/tree/node.ts';
import { resolvePath } from '../../src/tree/resolve.ts';
import { parseTimeFormat } from '../../src/tree/time-format.ts';
import type { TreeOptions } from '../../src/tree/tree-context.ts';
import { parseTreePath } from '../../src/tree/tree-path.ts';
import {
  type ExpectedSnapshot,
  expectedSnapshots,
  goldenPassphrase,
  goldenStore,
  readGolden,
} from '../support/golden.ts';
import { goldenKey, goldenKeys } from '../support/golden-keys.ts';
import { needs } from '../support/requirements.ts';

const shown = /\.(?:img\.fidx|pcat1\.didx|blob)$/;

async function openGoldenTree(options: Partial<TreeOptions> = {}): Promise<BackupTree> {
  const keys = options.keys ?? new KeyRing(await goldenKeys());
  return openBackupTree(await openDatastore(goldenStore), {
    cacheChunks: 4,
    concurrency: 4,
    logger: silentLogger,
    ...options,
    keys,
  });
}

async function nodeAt(tree: BackupTree, path: string): Promise<Node> {
  return (await resolvePath(tree, parseTreePath(path))).node;
}

async function fileAt(tree: BackupTree, path: string): Promise<File> {
  const node = await nodeAt(tree, path);
  assert.equal(node.kind, 'file');
  return node as File;
}

async function names(tree: BackupTree, path: string): Promise<string[]> {
  const node = await nodeAt(tree, path);
  assert.ok(node.kind === 'directory');
  return (await node.list()).map((entry) => entry.name.toString());
}

async function xattrsOf(node: Node): Promise<Record<string, string>> {
  const list = (await node.xattrs?.()) ?? [];
  return Object.fromEntries(list.map(({ name, value }) => [name.toString(), value.toString()]));
}

async function sha256(file: File): Promise<{ size: number; sha256: string }> {
  const open = await file.open();
  const hash = createHash('sha256');
  const step = 3 * 1024 * 1024 + 17;
  let size = 0;
  for (let offset = 0; offset < open.size; offset += step) {
    for (const slice of await open.read(offset, step)) {
      hash.update(slice);
      size += slice.length;
    }
  }
  await open[Symbol.asyncDispose]();
  return { size, sha256: hash.digest('hex') };
}

function pathOf(snapshot: ExpectedSnapshot, filename: string): string {
  return `${snapshot.dir}/${filename}`;
}

describe('the tree over the golden datastore', { skip: needs('golden') }, () => {
  let tree: BackupTree;
  before(async () => {
    tree = await openGoldenTree();
  });

  test('the root shows types that have groups, and namespaces', async () => {
    assert.deepEqual(await names(tree, ''), ['ct', 'host', 'vm', 'ns']);
    assert.deepEqual(await names(tree, 'ns'), ['ns1']);
    assert.deepEqual(await names(tree, 'ns/ns1/ns/deep'), ['host', 'vm']);
    assert.deepEqual(await names(tree, 'vm'), ['100', '101', '103', '200', '201', '300']);
  });

  test('a group shows its finished snapshots and a link to the newest', async () => {
    assert.deepEqual(await names(tree, 'vm/100'), [
      '2023-11-14T22:13:20Z',
      '2023-11-15T22:13:20Z',
      'latest',
    ]);
    assert.deepEqual(await names(tree, 'vm/103'), []);
    assert.deepEqual(await names(tree, 'vm/300'), []);
    const group = await nodeAt(tree, 'vm/100');
    assert.ok(group.kind === 'directory');
    const latest = await group.lookup(Buffer.from('latest'));
    assert.ok(latest?.kind === 'symlink');
    assert.equal((await latest.target()).toString(), '2023-11-15T22:13:20Z');
    assert.equal((await group.attributes()).mtime.seconds, 1_700_086_400);
  });

  test('unfinished snapshots are listed when all are asked for, and never read', async () => {
    await using all = await openGoldenTree({ all: true });
    assert.deepEqual(await names(all, 'vm/300'), ['2023-11-14T22:13:20Z']);
    const conf = await fileAt(all, 'vm/300/2023-11-14T22:13:20Z/qemu-server.conf');
    await assert.rejects(() => conf.open(), /not finished/);
  });

  test('every image, catalog and blob has the size and SHA-256 that the real client restored', async () => {
    let checked = 0;
    for (const snapshot of expectedSnapshots()) {
      for (const [filename, expected] of Object.entries(snapshot.archives)) {
        const size = expected.size ?? expected.decoded_size;
        const digest = expected.sha256 ?? expected.decoded_sha256;
        if (!shown.test(filename) || digest === undefined || size === undefined) continue;
        const file = await fileAt(tree, pathOf(snapshot, filename));
        assert.equal((await file.attributes()).size, size, pathOf(snapshot, filename));
        assert.deepEqual(await sha256(file), { size, sha256: digest }, pathOf(snapshot, filename));
        checked += 1;
      }
    }
    assert.ok(checked > 50, `${checked} archives`);
  });

  test('blocks count what is not zeros', async () => {
    for (const snapshot of expectedSnapshots()) {
      for (const [filename, { size = 0, chunk_size: chunkSize = 1, chunks = [] }] of Object.entries(
        snapshot.archives,
      )) {
        if (!filename.endsWith('.img.fidx')) continue;
        const data = chunks.reduce((sum, chunk, index) => {
          const length = Math.min(chunkSize, size - index * chunkSize);
          return chunk.zero === true && length === chunkSize ? sum : sum + length;
        }, 0);
        const { blocks } = await (await fileAt(tree, pathOf(snapshot, filename))).attributes();
        assert.equal(blocks, Math.ceil(data / 512), pathOf(snapshot, filename));
      }
    }
  });

  test('owner, notes, protection, verification and keys are extended attributes', async () => {
    const owner = readFileSync(`${goldenStore}/vm/100/owner`, 'utf8').trim();
    const notes = readFileSync(`${goldenStore}/vm/100/notes`, 'utf8');
    const group = await xattrsOf(await nodeAt(tree, 'vm/100'));
    assert.equal(group['user.pbs.owner'], owner);
    assert.equal(group['user.pbs.comment']?.trim(), notes.trim());
    const newest = await xattrsOf(await nodeAt(tree, 'vm/100/latest'));
    assert.equal(newest['user.pbs.protected'], 'true');
    assert.match(newest['user.pbs.comment'] ?? '', /\n/);
    const verified = await xattrsOf(await nodeAt(tree, 'vm/200/2023-11-14T22:13:20Z'));
    assert.equal(verified['user.pbs.verify-state'], 'ok');
    assert.equal(verified['user.pbs.crypt-mode'], 'encrypt');
    assert.match(verified['user.pbs.fingerprint'] ?? '', /^e9:26:4a:bb:94:ea:59:19:/);
    const image = await xattrsOf(await nodeAt(tree, 'vm/200/2023-11-14T22:13:20Z/drive-scsi0.img'));
    assert.equal(image['user.pbs.size'], String(9 * 1024 * 1024 + 1000));
    assert.match(image['user.pbs.csum'] ?? '', /^[0-9a-f]{64}$/);
  });

  test('a time format changes the names, and paths take both forms', async () => {
    await using named = await openGoldenTree({ timeFormat: parseTimeFormat('%Y%m%d-%H%M%S') });
    assert.deepEqual(await names(named, 'vm/100'), [
      '20231114-221320',
      '20231115-221320',
      'latest',
    ]);
    await fileAt(named, 'vm/100/20231114-221320/drive-scsi0.img');
    await fileAt(named, 'vm/100/2023-11-14T22:13:20Z/drive-scsi0.img');
    await fileAt(named, 'vm/100/latest/drive-scsi0.img.fidx');
  });

  test('a group stands for its newest snapshot where that is wanted', async () => {
    const { node, path } = await resolvePath(tree, parseTreePath('vm/100'), { group: 'newest' });
    assert.equal(node.kind, 'directory');
    assert.equal(path.join('/'), 'vm/100/2023-11-15T22:13:20Z');
    await assert.rejects(
      () => resolvePath(tree, parseTreePath('vm/103'), { group: 'newest' }),
      (error) => isPbsfsError(error, 'not-found') && error.context.path === 'vm/103',
    );
  });

  test('what is not there is told with its path', async () => {
    for (const path of ['vm/999', 'vm/100/nothing', 'vm/100/latest/x.img', 'ns/none', 'qq']) {
      await assert.rejects(
        () => nodeAt(tree, path),
        (error) => isPbsfsError(error, 'not-found') && error.context.path !== undefined,
        path,
      );
    }
  });

  test('the tree starts at the namespace that is asked for', async () => {
    await using deep = await openGoldenTree({ start: ['ns1', 'deep'] });
    assert.deepEqual(await names(deep, ''), ['host', 'vm']);
    await assert.rejects(
      async () => names(await openGoldenTree({ start: ['none'] }), ''),
      (error) => isPbsfsError(error, 'not-found'),
    );
  });
});

describe('locked snapshots', { skip: needs('golden') }, () => {
  const image = 'vm/200/2023-11-15T22:13:20Z/drive-scsi0.img';

  test('without a key they list with their sizes, and opening says which key is missing', async () => {
    await using tree = await openGoldenTree({ keys: new KeyRing() });
    assert.deepEqual(await names(tree, 'vm/200/2023-11-15T22:13:20Z'), [
      'drive-scsi0.img',
      'drive-efidisk0.img',
      'qemu-server.conf',
      'index.json',
    ]);
    const file = await fileAt(tree, image);
    assert.equal((await file.attributes()).size, 9 * 1024 * 1024 + 1000);
    await assert.rejects(
      () => file.open(),
      (error) =>
        isPbsfsError(error, 'key-missing') && error.message.includes('9a:ed:fa:b8:a4:5a:82:b4'),
    );
    const conf = await fileAt(tree, 'vm/200/2023-11-15T22:13:20Z/qemu-server.conf');
    assert.ok((await conf.attributes()).size > 0);
    await assert.rejects(
      () => conf.open(),
      (error) => isPbsfsError(error, 'key-missing'),
    );
    await fileAt(tree, 'vm/200/2023-11-15T22:13:20Z/index.json').then((file) => file.open());
  });

  test('with another key the error names the wanted and the given one', async () => {
    await using tree = await openGoldenTree({ keys: new KeyRing([await goldenKey('none')]) });
    const file = await fileAt(tree, image);
    await assert.rejects(
      () => file.open(),
      (error) =>
        isPbsfsError(error, 'key-wrong') &&
        error.message.includes('9a:ed:fa:b8:a4:5a:82:b4') &&
        (error.hint ?? '').includes('e9:26:4a:bb:94:ea:59:19'),
    );
  });

  test('a signed snapshot is read without its key', async () => {
    await using tree = await openGoldenTree({ keys: new KeyRing() });
    const expected = expectedSnapshots().find((snapshot) => snapshot.dir.startsWith('vm/201/'));
    assert.ok(expected);
    const { sha256: digest, size } = expected.archives['drive-scsi0.img.fidx'] ?? {};
    assert.deepEqual(await sha256(await fileAt(tree, `${expected.dir}/drive-scsi0.img`)), {
      size,
      sha256: digest,
    });
  });

  test('the master key opens a snapshot that carries its own key', async () => {
    const { decryptMasterKeyBlob } = await import('../../src/formats/master-key.ts');
    const { unlockKeyFile } = await import('../../src/formats/key-file.ts');
    const pem = readGolden('keys/master-private.pem').toString();
    const keys = new KeyRing([], async (rsa) =>
      unlockKeyFile(decryptMasterKeyBlob(rsa, pem, Buffer.from(goldenPassphrase))),
    );
    await using tree = await openGoldenTree({ keys });
    const expected = expectedSnapshots().find(({ dir }) => dir === 'vm/200/2023-11-16T22:13:20Z');
    const { sha256: digest, size } = expected?.archives['drive-scsi0.img.fidx'] ?? {};
    const file = await fileAt(tree, 'vm/200/2023-11-16T22:13:20Z/drive-scsi0.img');
    assert.deepEqual(await sha256(file), { size, sha256: digest });
  });
});
