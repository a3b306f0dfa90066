/** A damaged copy of the golden datastore in a mount: what is broken fails, by name; all else is there. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { chunkPath, damageChunk, encodeTestBlob, swapChunks } from '../support/encode-datastore.ts';
import { type ExpectedArchive, expectedSnapshots, goldenStore } from '../support/golden.ts';
import {
  copyGoldenStore,
  goldenKeyArgs,
  mountStore,
  python,
  run,
  type StoreMount,
} from '../support/golden-mount.ts';
import { tool } from '../support/mount-fixture.ts';
import { needs } from '../support/requirements.ts';
import { until } from '../support/until.ts';

const skip = needs('golden', 'fuse', 'root', 'python3');
const timeout = 120_000;
const chunk = 4 * 1024 * 1024;
const [EIO] = [5];

const snapshot = 'vm/100/2023-11-15T22:13:20Z';
const older = 'vm/100/2023-11-14T22:13:20Z';
const image = `${snapshot}/drive-scsi0.img`;
const archive = 'host/alphachunks/2023-11-14T22:13:20Z';
const bigFile = `${archive}/root.pxar/sizes/big.bin`;

function expectedArchive(dir: string, name: string): ExpectedArchive {
  const found = expectedSnapshots().find((one) => one.dir === dir)?.archives[name];
  return found ?? assert.fail(`${dir} has no ${name}`);
}

function digestsOf(dir: string, name: string): readonly string[] {
  return (expectedArchive(dir, name).chunks ?? []).map(({ digest }) => digest);
}

/** Runs of bytes that can be read, and of those that cannot, as `start end errno`; errno 0 is success. */
const readRuns = `
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT); size = os.fstat(fd).st_size; step = int(sys.argv[2])
buffer = mmap.mmap(-1, step)
def errno_at(offset, length):
    try: return 0 if os.preadv(fd, [memoryview(buffer)[:length]], offset) == length else -1
    except OSError as error: return error.errno
def edge(low, high, of):
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if errno_at(middle, 1) == of else (low, middle)
    return high
runs = [[0, 0, errno_at(0, 1)]]
for offset in range(0, size, step):
    last = min(offset + step, size) - 1
    for at in (offset, last):
        found = errno_at(at, 1)
        if found != runs[-1][2]: runs.append([edge(max(at - step, 0), at, runs[-1][2]), 0, found])
for run, after in zip(runs, runs[1:] + [[size]]): run[1] = after[0]; print(*run)
`;

async function runsOf(path: string, step: number): Promise<number[][]> {
  const lines = (await python(readRuns, path, String(step))).trim().split('\n');
  return lines.map((line) => line.split(' ').map(Number));
}

/** SHA-256 of each chunk that is asked for, read through the page cache. */
async function chunkSums(path: string, ...indexes: readonly number[]): Promise<string[]> {
  const script = `
import hashlib, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY); length = 4 << 20
for index in sys.argv[2:]: print(hashlib.sha256(os.pread(fd, length, int(index) * length)).hexdigest())
`;
  return (await python(script, path, ...indexes.map(String))).trim().split('\n');
}

/** Errno of reading a file, or of listing a directory, to its end. */
async function errnoOf(path: string): Promise<number> {
  const script = `
import os, sys
try: os.listdir(sys.argv[1]) if os.path.isdir(sys.argv[1]) else open(sys.argv[1], 'rb').read(); print(0)
except OSError as error: print(error.errno)
`;
  return Number(await python(script, path));
}

async function damageImage(store: string): Promise<void> {
  const [, missing = '', empty = '', truncated = '', , flipped = '', magic = ''] = digestsOf(
    snapshot,
    'drive-scsi0.img.fidx',
  );
  damageChunk(store, missing, 'missing');
  damageChunk(store, empty, 'empty');
  damageChunk(store, truncated, 'truncated');
  damageChunk(store, flipped, 'bit-flip');
  damageChunk(store, magic, 'wrong-magic');
  const [a = '', b = ''] = digestsOf(snapshot, 'drive-scsi0.img.fidx').slice(8);
  swapChunks(store, a, b);
}

describe('a damaged image', { skip, timeout }, () => {
  let store: AsyncDisposable & { readonly path: string };
  let mount: StoreMount;
  const resources = new AsyncDisposableStack();
  before(async () => {
    store = resources.use(await copyGoldenStore());
    await damageImage(store.path);
    mount = resources.use(await mountStore([], store.path));
  });
  after(() => resources.disposeAsync());

  test('gives EIO for exactly the bytes of its bad chunks', async () => {
    const { size = 0 } = expectedArchive(snapshot, 'drive-scsi0.img.fidx');
    assert.deepEqual(await runsOf(mount.at(image), chunk / 2), [
      [0, chunk, 0],
      [chunk, 7 * chunk, EIO],
      [7 * chunk, 8 * chunk, 0],
      [8 * chunk, size, EIO],
    ]);
  });

  test('gives its good bytes right up to the bad ones, to readers with read-ahead too', async () => {
    const { chunks = [] } = expectedArchive(snapshot, 'drive-scsi0.img.fidx');
    assert.deepEqual(
      await chunkSums(mount.at(image), 0, 7),
      [0, 7].map((index) => chunks[index]?.plain_sha256),
    );
    // A read that runs into the bad chunk ends in front of it.
    const script =
      'import os, sys; print(len(os.pread(os.open(sys.argv[1], 0), 8192, (4 << 20) - 4096)))';
    assert.equal(await python(script, mount.at(image)), '4096\n');
  });

  test('is told of in one line for each bad chunk, with its place and what is wrong', async () => {
    const digests = digestsOf(snapshot, 'drive-scsi0.img.fidx');
    const why = new Map([
      [1, 'not in the datastore'],
      [2, 'its file is empty'],
      [3, 'CRC'],
      [5, 'CRC'],
      [6, 'unknown magic ffffffffffffffff'],
      [8, `holds other data, of digest ${digests[9]}`],
      [9, `holds other data, of digest ${digests[8]}`],
    ]);
    for (const [index, words] of why) {
      const place = [
        snapshot,
        'drive-scsi0.img',
        `offset ${index * chunk},`,
        `chunk ${digests[index]}`,
      ];
      await until(`chunk ${index} is told of`, async () => mount.logOf(...place).length > 0);
      const lines = mount.logOf(`chunk ${digests[index]}`);
      assert.equal(lines.length, 1);
      assert.ok(lines[0]?.includes(words), lines[0]);
    }
  });

  test('leaves its neighbours and other snapshots whole', async () => {
    const others = expectedSnapshots().flatMap(({ dir, archives, key }) =>
      Object.entries(archives)
        .filter(([, { decoded_sha256: sum }]) => sum !== undefined && key === null)
        .map(([name, { decoded_sha256: sum }]) => [`${dir}/${name.replace('.blob', '')}`, sum]),
    );
    const { sha256 } = expectedArchive(snapshot, 'drive-scsi1.img.fidx');
    others.push([`${snapshot}/drive-scsi1.img`, sha256], [`${older}/drive-scsi1.img`, sha256]);
    const sums = await run('sha256sum', '--', ...others.map(([path = '']) => mount.at(path)));
    assert.deepEqual(
      sums
        .trim()
        .split('\n')
        .map((line) => line.slice(0, 64)),
      others.map(([, sum]) => sum),
    );
  });

  test('is read again as soon as the chunk is back', async () => {
    const { chunks: [, first] = [] } = expectedArchive(snapshot, 'drive-scsi0.img.fidx');
    const digest = first?.digest ?? '';
    await cp(chunkPath(goldenStore, digest), chunkPath(store.path, digest));
    const sum = first?.plain_sha256;
    assert.deepEqual(await chunkSums(mount.at(image), 1, 4), [sum, sum]);
    await rm(chunkPath(store.path, digest));
  });

  test('is whole with the chunks of a good copy at hand', async () => {
    // Chunks that are intact and not the right ones are no reason to look further.
    const [a = '', b = ''] = digestsOf(snapshot, 'drive-scsi0.img.fidx').slice(8);
    swapChunks(store.path, a, b);
    await using salvaged = await mountStore(
      ['--chunk-dir', join(goldenStore, '.chunks')],
      store.path,
    );
    const sum = await run('sha256sum', salvaged.at(image));
    assert.equal(sum.slice(0, 64), expectedArchive(snapshot, 'drive-scsi0.img.fidx').sha256);
    assert.equal(salvaged.served.stderr, '');
    swapChunks(store.path, a, b);
  });

  test('has zeros for its bad bytes with --on-error zero, each range named, and exit 6', async () => {
    const digests = digestsOf(snapshot, 'drive-scsi0.img.fidx');
    const { chunks = [], size = 0 } = expectedArchive(snapshot, 'drive-scsi0.img.fidx');
    await using zeroed = await mountStore(['--on-error', 'zero'], store.path);
    assert.equal((await readFile(zeroed.at(image))).length, size);
    const sums = await chunkSums(zeroed.at(image), ...chunks.keys());
    const zeros = (length: number) =>
      createHash('sha256').update(Buffer.alloc(length)).digest('hex');
    for (const [index, { plain_sha256: sum }] of chunks.entries()) {
      const isGood = [0, 7].includes(index);
      assert.equal(sums[index], isGood ? sum : zeros(Math.min(chunk, size - index * chunk)));
    }
    assert.equal(await zeroed.served.stop('SIGINT'), 6);
    for (const index of [1, 2, 3, 4, 5, 6, 8, 9]) {
      const lines = zeroed.logOf(
        'zeros',
        snapshot,
        `offset ${index * chunk},`,
        digests[index] ?? '',
      );
      assert.equal(lines.length, 1, zeroed.served.stderr);
    }
  });
});

describe('a damaged archive', { skip, timeout }, () => {
  let store: AsyncDisposable & { readonly path: string };
  let mount: StoreMount;
  /** Lies within big.bin. */
  const index = 30;
  const resources = new AsyncDisposableStack();
  before(async () => {
    store = resources.use(await copyGoldenStore());
    damageChunk(store.path, digestsOf(archive, 'root.pxar.didx')[index] ?? '', 'missing');
    await rm(join(store.path, 'host/split/2023-11-14T22:13:20Z/root.ppxar.didx'));
    await truncate(join(store.path, 'host/split/2023-11-15T22:13:20Z/root.mpxar.didx'), 4097);
    mount = resources.use(await mountStore([], store.path));
  });
  after(() => resources.disposeAsync());

  test('gives EIO for the bytes of a file that lie in the bad chunk, and for no others', async () => {
    const { start = 0, end = 0 } = expectedArchive(archive, 'root.pxar.didx').chunks?.[index] ?? {};
    const runs = await runsOf(mount.at(bigFile), 65_536);
    assert.deepEqual(
      runs.map(([, , errno]) => errno),
      [0, EIO, 0],
    );
    const [from = 0, to = 0] = runs[1] ?? [];
    assert.equal(to - from, end - start);
    const place = [archive, 'root.pxar', `offset ${start},`];
    await until('the chunk is told of', async () => mount.logOf(...place).length === 1);
  });

  test('still lists, and its other files are whole', async () => {
    const intact = '2023-11-14T22:13:20Z/root.pxar';
    const flags = ['-aHAXnci', '--delete', '--exclude=/sizes/big.bin'];
    const unlike = ['/.pxarexclude-cli', '/excl', '/mnt', '/many/*'].map(
      (path) => `--exclude=${path}`,
    );
    const [one, other] = [mount.at('host/alpha', intact), mount.at('host/alphachunks', intact)];
    assert.equal(await run('rsync', ...flags, ...unlike, `${one}/`, `${other}/`), '');
  });

  test('without its payloads shows names and attributes, and EIO for contents', async () => {
    const root = mount.at('host/split/2023-11-14T22:13:20Z/root.pxar');
    const names = await run('find', root, '-printf', '%P\\0');
    assert.equal(names.split('\0').length, 3347 + 1);
    assert.equal(await run('stat', '-c', '%s', join(root, 'sizes/big.bin')), '8389385\n');
    assert.equal(await errnoOf(join(root, 'sizes/big.bin')), EIO);
    assert.equal(await errnoOf(join(root, 'sizes/empty')), 0);
  });

  test('with a broken index fails alone', async () => {
    const directory = 'host/split/2023-11-15T22:13:20Z';
    assert.equal(await run('ls', mount.at(directory)), 'index.json\nroot.pxar\n');
    assert.equal(await errnoOf(mount.at(directory, 'root.pxar')), EIO);
    assert.equal(await errnoOf(mount.at(directory, 'index.json')), 0);
    await until('it is told of', async () => mount.logOf(directory, 'root.mpxar').length === 1);
  });
});

describe('broken indexes, blobs and manifests', { skip, timeout }, () => {
  let store: AsyncDisposable & { readonly path: string };
  let mount: StoreMount;
  const manifestOf = (group: string): string =>
    join(store.path, group, '2023-11-14T22:13:20Z/index.json.blob');
  async function change(path: string, edit: (bytes: Buffer) => void): Promise<void> {
    const bytes = await readFile(path);
    edit(bytes);
    await writeFile(path, bytes);
  }
  const resources = new AsyncDisposableStack();
  before(async () => {
    store = resources.use(await copyGoldenStore());
    const file = (name: string): string => join(store.path, older, name);
    await change(file('drive-scsi0.img.fidx'), (bytes) => bytes.fill(0xff, 0, 8));
    await truncate(file('drive-scsi1.img.fidx'), 4096 + 63);
    await change(file('fw.conf.blob'), (bytes) => bytes.fill(0xee, bytes.length - 1));
    await rm(file('qemu-server.conf.blob'));
    // One digest of the index is that of another chunk.
    await change(join(store.path, snapshot, 'drive-scsi1.img.fidx'), (bytes) => {
      bytes.copy(bytes, 4096, 4096 + 32, 4096 + 64);
    });
    await change(manifestOf('vm/101'), (bytes) => bytes.fill(0xee, bytes.length - 1));
    await truncate(manifestOf('vm/201'), 0);
    await writeFile(manifestOf('host/blobonly'), encodeTestBlob(Buffer.from('{"files":'), 'plain'));
    mount = resources.use(await mountStore(goldenKeyArgs, store.path));
  });
  after(() => resources.disposeAsync());

  for (const path of [
    `${older}/drive-scsi0.img`,
    `${older}/drive-scsi1.img`,
    `${older}/fw.conf`,
    `${older}/qemu-server.conf`,
    `${snapshot}/drive-scsi1.img`,
  ]) {
    test(`fail by name: ${path}`, async () => {
      assert.equal(await errnoOf(mount.at(path)), EIO);
      const [name = ''] = path.split('/').slice(-1);
      const place = [path.slice(0, -name.length - 1), name];
      await until('it is told of', async () => mount.logOf(...place).length === 1);
    });
  }

  test('are listed with the rest, which is there', async () => {
    const names = 'client.log drive-scsi0.img drive-scsi1.img fw.conf index.json qemu-server.conf';
    assert.equal(await run('ls', mount.at(older)), `${names.replaceAll(' ', '\n')}\n`);
    assert.equal(await errnoOf(mount.at(older, 'client.log')), 0);
    const { sha256 } = expectedArchive(snapshot, 'drive-scsi0.img.fidx');
    assert.equal((await run('sha256sum', mount.at(image))).slice(0, 64), sha256);
  });

  for (const group of ['vm/101', 'vm/201', 'host/blobonly']) {
    test(`a snapshot with a broken manifest fails, its group does not: ${group}`, async () => {
      assert.equal(await run('ls', mount.at(group)), '2023-11-14T22:13:20Z\nlatest\n');
      const directory = `${group}/2023-11-14T22:13:20Z`;
      assert.equal(await errnoOf(mount.at(directory)), EIO);
      await until('it is told of', async () => mount.logOf(directory, 'index.json').length === 1);
      const listed = await tool('ls', '-l', mount.at(group));
      assert.equal(listed.status, 0, listed.stderr);
    });
  }
});
