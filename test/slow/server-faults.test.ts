/** Programs that read a mount at random while the server misbehaves in every way that passes: nothing is lost. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { temporaryDatastore, writeSnapshot } from '../support/encode-datastore.ts';
import { python } from '../support/golden-mount.ts';
import type { Fault } from '../support/pbs-server/faults.ts';
import { PbsServer } from '../support/pbs-server/server.ts';
import { needs } from '../support/requirements.ts';
import { mountServer } from '../support/server-mount.ts';
import { livingShortly } from '../support/short-lives.ts';
import { until } from '../support/until.ts';

const chunkSize = 256 * 1024;
const faults: readonly Fault[] = ['status-500', 'status-503', 'drop', 'reset', 'goaway', 'slow'];
/** Each costs a deadline. */
const waiting: readonly Fault[] = ['silence', 'stall', 'truncate'];
const readers = 4;

const compare = `
import mmap, os, random, sys
mounted, copy, seed, reads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
random.seed(seed)
expected = open(copy, 'rb').read()
buffer = mmap.mmap(-1, 1 << 20)
for i in range(reads):
    direct = i % 2
    fd = os.open(mounted, os.O_RDONLY | (os.O_DIRECT if direct else 0))
    offset = random.randrange(len(expected) // 4096) * 4096
    length = min(random.choice((4096, 65536, 1 << 20)), len(expected) - offset)
    got = os.preadv(fd, [memoryview(buffer)[:length]], offset)
    assert buffer[:got] == expected[offset:offset + got] and got > 0, f'wrong bytes at {offset}'
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
`;

test('a thousand faults lose nothing to programs that read a mount', {
  skip: needs('fuse', 'root', 'python3'),
  timeout: 280_000,
}, async () => {
  using store = temporaryDatastore();
  const data = createHash('shake256', { outputLength: 64 * chunkSize })
    .update('faults')
    .digest();
  const images = { 'drive-scsi0.img': { data, chunkSize } };
  writeSnapshot(store.path, { group: 'vm/100', time: 1_700_000_000, images, compress: false });
  const copy = join(store.path, 'copy');
  writeFileSync(copy, data);
  await using server = await PbsServer.start({ directory: store.path, link: {} });
  const deadlines = {
    connect: 2000,
    headers: 300,
    chunk: 300,
    progress: 300,
    ping: 500,
    idle: 400,
  };
  const env = livingShortly({
    deadlines,
    retry: { firstWait: 10, maxWait: 100, giveUpAfter: 60_000 },
  });
  await using mount = await mountServer(server, ['--cache-chunks', '1', '--prefetch', '2'], {
    env,
  });
  const { pid = 0 } = mount.served.child;
  const descriptors = (): number => readdirSync(`/proc/${pid}/fd`).length;
  const image = mount.at('vm/100/latest/drive-scsi0.img');
  await python(compare, image, copy, 'warm-up', '50');
  const before = descriptors();
  let injected = 0;
  server.faults.choose = ({ kind }) => {
    if (kind === 'login' || Math.random() > 0.5) return undefined;
    injected += 1;
    const some = Math.random() < 0.1 ? waiting : faults;
    return some[Math.floor(Math.random() * some.length)];
  };
  const running = Array.from({ length: readers }, (_, i) =>
    python(compare, image, copy, String(i), '180'),
  );
  const all = Promise.all(running).finally(() => server.faults.clear());
  let isDone = false;
  void all
    .catch(() => {})
    .finally(() => {
      isDone = true;
    });
  while (!isDone) {
    await sleep(2000);
    if (Math.random() < 0.5) server.link?.cut();
    else await server.restart(100);
    server.access.clockOffset += 3 * 3600;
  }
  await all;
  console.log(`${injected} faults`);
  assert.ok(injected > 1000, `${injected} faults`);
  assert.equal(mount.served.stderr, '');
  await until('descriptors come back', async () => descriptors() <= before);
});
