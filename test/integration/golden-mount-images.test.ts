/** Disk images and blobs of the golden datastore in a mount, read by the tools that people read disks with. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { runCli } from '../cli/run-cli.ts';
import { expectedSnapshots, goldenStore } from '../support/golden.ts';
import {
  goldenKeyArgs,
  mountStore,
  python,
  run,
  type StoreMount,
} from '../support/golden-mount.ts';
import { temporaryDirectory, tool } from '../support/mount-fixture.ts';
import { needs } from '../support/requirements.ts';
import { until } from '../support/until.ts';

const chunk = 4 * 1024 * 1024;
const snapshot = 'vm/100/2023-11-15T22:13:20Z';
const image = `${snapshot}/drive-scsi0.img`;
const skipMounts = needs('golden', 'fuse', 'root');

interface Shown {
  /** In the mount. */
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
  /** What is not known to be zeros. */
  readonly dataBytes: number;
}

/** Everything that is one plain file, as the real client restored it. */
function shownFiles(): readonly Shown[] {
  return expectedSnapshots().flatMap(({ dir, archives }) =>
    Object.entries(archives).flatMap(([name, archive]) => {
      const path = `${dir}/${name.replace(/\.(fidx|blob)$/, '')}`;
      const { kind, chunks = [] } = archive;
      const sha256 = kind === 'blob' ? archive.decoded_sha256 : archive.sha256;
      const size = kind === 'blob' ? archive.decoded_size : archive.size;
      if (kind === 'dynamic' || sha256 === undefined || size === undefined) return [];
      const zeros = chunks.filter(({ zero }) => zero === true).length * chunk;
      return [{ path, size, sha256, dataBytes: size - zeros }];
    }),
  );
}

function expectedImage(): Shown {
  const found = skipMounts ? undefined : shownFiles().find(({ path }) => path === image);
  return found ?? { path: image, size: 0, sha256: '', dataBytes: 0 };
}

async function sha256sum(...paths: readonly string[]): Promise<string[]> {
  const lines = (await run('sha256sum', '-z', '--', ...paths)).split('\0').slice(0, -1);
  return lines.map((line) => line.slice(0, 64));
}

/** SHA-256 of what `dd` copies. */
async function sha256OfDd(path: string, ...args: readonly string[]): Promise<string> {
  const dd = spawn('dd', [`if=${path}`, ...args], { stdio: ['ignore', 'pipe', 'ignore'] });
  const hash = createHash('sha256');
  for await (const part of dd.stdout) hash.update(part as Buffer);
  if (dd.exitCode === null) await once(dd, 'exit');
  assert.equal(dd.exitCode, 0, `dd ${args.join(' ')}`);
  return hash.digest('hex');
}

for (const driver of ['kernel', 'fuse-native'] as const) {
  const skip = skipMounts || needs(...(driver === 'kernel' ? [] : [driver]));
  describe(`golden images in a mount by ${driver}`, { skip, timeout: 120_000 }, () => {
    let mount: StoreMount;
    const resources = new AsyncDisposableStack();
    before(async () => {
      mount = resources.use(await mountStore(['--driver', driver, ...goldenKeyArgs]));
    });
    after(() => resources.disposeAsync());

    test('every image and blob is what the real client restored, the encrypted ones too', async () => {
      const files = shownFiles();
      assert.ok(files.length > 40);
      assert.ok(files.some(({ path }) => path.startsWith('vm/200/')));
      const sums = await sha256sum(...files.map(({ path }) => mount.at(path)));
      assert.deepEqual(
        files.map(({ path }, index) => [path, sums[index]]),
        files.map(({ path, sha256 }) => [path, sha256]),
      );
    });

    test('sizes, blocks and times are right before and after reading', async () => {
      const files = shownFiles();
      const paths = files.map(({ path }) => mount.at(path));
      const shown = await run('stat', '--printf=%s %b %Y\\n', ...paths);
      const expected = files.map(({ path, size, dataBytes }) => {
        const time = Date.parse(path.split('/').at(-2) ?? '') / 1000;
        return `${size} ${Math.ceil(dataBytes / 512)} ${time}\n`;
      });
      assert.equal(shown, expected.join(''));
    });

    test('dd gives the same bytes whatever its block size, with and without the page cache', async () => {
      const { sha256 } = expectedImage();
      for (const size of ['4096', '1000003', '1M', '16M']) {
        for (const flags of [[], ['iflag=direct']]) {
          const args = [`bs=${size}`, ...flags];
          assert.equal(await sha256OfDd(mount.at(image), ...args), sha256, args.join(' '));
        }
      }
      assert.equal(await sha256OfDd(mount.at(image), 'bs=512'), sha256);
    });

    test('several readers at once all get the right bytes', async () => {
      const { sha256 } = expectedImage();
      const path = mount.at(image);
      const results = await Promise.all([
        sha256OfDd(path, 'bs=1M', 'iflag=direct'),
        sha256OfDd(path, 'bs=4096'),
        sha256OfDd(path, 'bs=333333', 'iflag=direct'),
        sha256sum(path).then(([sum]) => sum),
      ]);
      assert.deepEqual(results, Array(4).fill(sha256));
    });
  });
}

describe('tools on a golden image', { skip: skipMounts, timeout: 120_000 }, () => {
  let mount: StoreMount;
  let path: string;
  let folder: AsyncDisposable & { readonly path: string };
  /** The same bytes as an ordinary file. */
  let copy: string;

  const resources = new AsyncDisposableStack();
  before(async () => {
    folder = resources.use(await temporaryDirectory());
    copy = join(folder.path, 'copy.img');
    const { stdout } = await runCli(['cat', '-r', goldenStore, image]);
    assert.equal(createHash('sha256').update(stdout).digest('hex'), expectedImage().sha256);
    await writeFile(copy, stdout);
    mount = resources.use(await mountStore());
    path = mount.at(image);
  });
  after(() => resources.disposeAsync());

  test('cmp finds no difference at odd offsets and lengths', async () => {
    const { size } = expectedImage();
    const ranges = [
      [1, 3],
      [511, 513],
      [chunk - 1, 2],
      [chunk - 4097, 2 * chunk + 7],
      [7 * chunk - 123, chunk + 1234],
      [size - 513, 512],
      [size - 1, 1],
      [3, size],
    ];
    for (const [offset, length] of ranges) {
      await run('cmp', '-i', String(offset), '-n', String(length), path, copy);
    }
  });

  test('reads behind the end give nothing, reads across it what is there', async () => {
    const { size } = expectedImage();
    const script = `
import os, sys
size = int(sys.argv[2])
for flags in (0, os.O_DIRECT):
    fd = os.open(sys.argv[1], os.O_RDONLY | flags)
    import mmap
    buffer = mmap.mmap(-1, 8192)
    print(*[os.preadv(fd, [memoryview(buffer)[:length]], offset) for offset, length in
        ((size - 5, 4096), (size, 1), (size + 1, 4096), (size + (1 << 40), 512), (size - 512, 512))])
`;
    assert.equal(await python(script, path, String(size)), '5 0 0 0 512\n5 0 0 0 512\n');
  });

  test('mmap shows the bytes of the file', async () => {
    const script = `
import hashlib, mmap, sys
with open(sys.argv[1]) as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m: print(hashlib.sha256(m).hexdigest())
`;
    assert.equal(await python(script, path), `${expectedImage().sha256}\n`);
  });

  test('qemu-img knows the size, the holes and the bytes', {
    skip: needs('qemu-img'),
  }, async () => {
    const { size, dataBytes } = expectedImage();
    const info = JSON.parse(await run('qemu-img', 'info', '-f', 'raw', '--output=json', path));
    assert.equal(info['virtual-size'], size);
    assert.equal(info['actual-size'], Math.ceil(dataBytes / 512) * 512);
    const map = JSON.parse(await run('qemu-img', 'map', '-f', 'raw', '--output=json', path));
    const holes = (map as { start: number; length: number; zero: boolean }[])
      .filter(({ zero }) => zero)
      .map(({ start, length }) => [start, length]);
    assert.deepEqual(holes, [[7 * chunk, chunk]]);
    await run('qemu-img', 'compare', '-f', 'raw', '-F', 'raw', path, copy);
  });

  test('qemu-img converts it', { skip: needs('qemu-img') }, async () => {
    const target = join(folder.path, 'copy.qcow2');
    await run('qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2', path, target);
    await run('qemu-img', 'compare', '-f', 'qcow2', '-F', 'raw', target, copy);
  });

  test('a virtual disk may lie upon it', { skip: needs('qemu-img') }, async () => {
    const overlay = join(folder.path, 'overlay.qcow2');
    await run('qemu-img', 'create', '-q', '-f', 'qcow2', '-F', 'raw', '-b', path, overlay);
    await run('qemu-img', 'compare', '-f', 'qcow2', '-F', 'raw', overlay, copy);
  });

  test('qemu-nbd exports it', { skip: needs('qemu-nbd', 'qemu-img') }, async () => {
    const socket = join(folder.path, 'nbd');
    const server = spawn('qemu-nbd', ['-r', '-t', '-e', '2', '-f', 'raw', '-k', socket, path]);
    try {
      await until('qemu-nbd listens', async () =>
        stat(socket).then(
          () => true,
          () => false,
        ),
      );
      const url = `nbd+unix:///?socket=${socket}`;
      await run('qemu-img', 'compare', '-f', 'raw', '-F', 'raw', url, copy);
    } finally {
      server.kill();
      if (server.exitCode === null) await once(server, 'exit');
    }
  });

  test('a loop device shows it', { skip: needs('loop-device', 'losetup') }, async () => {
    const device = (await run('losetup', '-r', '--show', '-f', path)).trim();
    try {
      await run('cmp', '-n', String(expectedImage().size), device, copy);
    } finally {
      await run('losetup', '-d', device);
    }
  });

  test('cp, tar and rsync copy it, its holes left out', {
    skip: needs('tar', 'rsync'),
  }, async () => {
    const { dataBytes } = expectedImage();
    const target = (name: string): string => join(folder.path, name);
    await run('cp', path, target('cp'));
    await run('cp', '--sparse=always', path, target('sparse'));
    await run('rsync', '-S', path, target('rsync'));
    await run('tar', '-C', mount.at(snapshot), '-cSf', target('tar'), 'drive-scsi0.img');
    await run('tar', '-C', folder.path, '-xf', target('tar'));
    assert.ok((await stat(target('tar'))).size < dataBytes + (1 << 20));
    for (const name of ['cp', 'sparse', 'rsync', 'drive-scsi0.img']) {
      await run('cmp', target(name), copy);
      assert.ok((await stat(target(name))).blocks * 512 <= dataBytes + 4096, name);
    }
  });

  test('du counts what is there, and the size when asked', async () => {
    const { size, dataBytes } = expectedImage();
    assert.equal(parseInt(await run('du', '-B1', path), 10), Math.ceil(dataBytes / 512) * 512);
    assert.equal(parseInt(await run('du', '-B1', '--apparent-size', path), 10), size);
  });

  test('find and ls show the same tree again and again', async () => {
    const args = [mount.at('vm'), '-printf', '%P %y %s %b %n %m %U %G %T@ %i %l\\n'];
    const first = await run('find', ...args);
    const link = first.split('\n').find((line) => line.startsWith('100/latest l 20 '));
    assert.match(link ?? '', / 2023-11-15T22:13:20Z$/);
    assert.equal(await run('find', ...args), first);
    const numbers = first
      .split('\n')
      .slice(0, -1)
      .map((line) => line.split(' ').at(-2));
    assert.equal(new Set(numbers).size, numbers.length);
    const listing = await run('ls', '-lR', '--time-style=full-iso', mount.at('vm'));
    assert.equal(await run('ls', '-lR', '--time-style=full-iso', mount.at('vm')), listing);
    await using other = await mountStore();
    const again = await run('find', other.at('vm'), ...args.slice(1));
    assert.equal(again.replace(/ 17\d{8}\.0{10} /g, ''), first.replace(/ 17\d{8}\.0{10} /g, ''));
  });

  test('what PBS knows of a snapshot is in its extended attributes', {
    skip: needs('getfattr'),
  }, async () => {
    const value = async (name: string, at: string): Promise<string> =>
      run('getfattr', '--only-values', '--absolute-names', '-n', `user.pbs.${name}`, mount.at(at));
    assert.equal(await value('owner', 'vm/100'), 'root@pam!tok');
    assert.equal(await value('protected', snapshot), 'true');
    assert.match(await value('comment', snapshot), /^First line of notes\nsecond line with äöü/);
    assert.equal(await value('size', image), String(expectedImage().size));
    const encrypted = 'vm/200/2023-11-14T22:13:20Z';
    assert.equal(await value('crypt-mode', `${encrypted}/drive-scsi0.img`), 'encrypt');
    assert.match(await value('fingerprint', encrypted), /^e9:26:4a:bb:94:ea:59:19:/);
    assert.equal(await value('verify-state', encrypted), 'ok');
    const none = await tool('getfattr', '-n', 'user.pbs.fingerprint', mount.at(snapshot));
    assert.match(none.stderr, /No such attribute/);
  });

  test('nothing of all this was worth a line in the log', () => {
    assert.equal(mount.served.stderr, '');
  });
});
