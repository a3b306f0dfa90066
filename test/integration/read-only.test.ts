/** Nothing is ever written, locked or touched below a datastore: the kernel is the witness. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { temporaryDatastore, vectorKey, writeSnapshot } from '../support/encode-datastore.ts';
import { needs } from '../support/requirements.ts';

const program = fileURLToPath(new URL('../support/read-whole-datastore.ts', import.meta.url));
/** Calls that only look. Any other one on a path of the datastore fails the test. */
const looking =
  /^(stat|lstat|statx|newfstatat|fstat|statfs|fstatfs|access|faccessat2?|readlink|getdents64|close)$/;
/** Everything that takes a path or a descriptor, without what merely moves bytes to the reader. */
const traced = 'trace=%file,%desc';
const reading = /^(read|pread64|readv|preadv|lseek)$/;

function fillDatastore(store: string): void {
  const data = Buffer.alloc(300_000, 'some content ');
  for (const group of ['vm/100', 'ns/a/ct/101', 'ns/a/ns/b/host/web']) {
    for (const time of [1_700_000_000, 1_700_086_400]) {
      writeSnapshot(store, {
        group,
        time,
        images: { 'drive-scsi0.img': { data, chunkSize: 65_536 } },
        archives: { 'root.pxar': { data, chunkSize: 50_000 } },
        blobs: { 'qemu-server.conf': Buffer.from('cores: 2\n') },
        isProtected: true,
        ...(group === 'vm/100' ? { key: vectorKey } : {}),
      });
    }
  }
  writeSnapshot(store, { group: 'vm/102', time: 1_700_000_000, finished: false });
}

test('reading a whole datastore opens files to read and does nothing else', {
  skip: needs('strace'),
}, async () => {
  using store = temporaryDatastore();
  fillDatastore(store.path);
  const logs = mkdtempSync(join(tmpdir(), 'pbsfs-strace-'));
  try {
    const log = join(logs, 'log');
    const strace = ['-f', '-qq', '-y', '-s', '200', '-e', traced, '-o', log];
    const { stdout } = await promisify(execFile)('strace', [
      ...strace,
      process.execPath,
      program,
      store.path,
    ]);
    assert.equal(stdout, '66 chunks\n');
    const calls = readFileSync(log, 'utf8')
      .split('\n')
      .filter((line) => line.includes(store.path) && !line.includes('execve('))
      // The second half of a call that another thread interrupted: the first one has the arguments.
      .filter((line) => !line.includes(' resumed>'));
    assert.ok(calls.length > 300, `${calls.length} calls seen`);
    let opened = 0;
    for (const line of calls) {
      const name = /^\d+\s+(\w+)\(/.exec(line)?.[1] ?? line;
      assert.doesNotMatch(line, /O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND/, line);
      assert.doesNotMatch(line, /\/\.lock/, line);
      if (name === 'open' || name === 'openat') {
        assert.match(line, /O_RDONLY/, line);
        opened++;
      } else {
        assert.ok(looking.test(name) || reading.test(name), line);
      }
    }
    assert.ok(opened > 66, `${opened} files opened`);
  } finally {
    rmSync(logs, { recursive: true });
  }
});
