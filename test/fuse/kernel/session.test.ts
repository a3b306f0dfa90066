import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { PbsfsError } from '../../../src/errors.ts';
import { mountTree, noise, TreeBuilder } from '../../support/mount-tree.ts';
import { encodeFields, FakeKernel, nul, settle } from './fake-kernel.ts';

const root = 1n;
const errno = { ENOENT: 2, EINTR: 4, EIO: 5, EBADF: 9, EAGAIN: 11, EINVAL: 22, ESTALE: 116 };

/** A root directory with the children that a test needs. */
function kernelWith(
  build: (builder: TreeBuilder) => Record<string, ReturnType<TreeBuilder['file']>>,
) {
  const builder = new TreeBuilder();
  const children = Object.entries(build(builder));
  const kernel = new FakeKernel(builder.directory(() => children));
  return { kernel, counters: builder.counters };
}

test('agrees with the kernel on version 7.31, reads of 1 MiB and what it can do', async () => {
  const kernel = new FakeKernel(mountTree().root);
  // As Linux 6.18 sends it: 7.45, 128 KiB ahead, flags, flags2.
  const init = encodeFields(7, 45, 131_072, 0x73fffffb, 0x5fd, Buffer.alloc(44));
  const { error, body } = await kernel.call(26, 0n, init);
  assert.equal(error, 0);
  // async read, readdirplus, parallel directory operations, max pages, cached symlinks
  const flags = (1 << 0) | (1 << 13) | (1 << 18) | (1 << 22) | (1 << 23);
  const sizes = Buffer.from('4000300000100000' + '01000000' + '00010000', 'hex');
  assert.deepEqual(body, encodeFields(7, 31, 131_072, flags, sizes, Buffer.alloc(32)));
  await kernel.session.started;
});

test('claims nothing that the kernel does not offer', async () => {
  const kernel = new FakeKernel(mountTree().root);
  const { body } = await kernel.call(26, 0n, 7, 28, 65_536, 1 << 13);
  assert.deepEqual(body.subarray(0, 16), encodeFields(7, 28, 65_536, 1 << 13));
});

test('refuses kernels that are too old or speak another version', async () => {
  for (const [major, minor] of [
    [7, 26],
    [6, 99],
    [8, 0],
  ] as const) {
    const kernel = new FakeKernel(mountTree().root);
    assert.equal((await kernel.call(26, 0n, major, minor, 131_072, 0)).error, 71);
  }
});

test('describes a name with number, times to keep it, and attributes', async () => {
  const { kernel } = kernelWith((builder) => ({
    first: builder.file('x'),
    second: builder.file('hello', { mtime: { seconds: -2, nanos: 7 }, mode: 0o640 }),
  }));
  const { error, body } = await kernel.call(1, root, nul('second'));
  assert.equal(error, 0);
  const year = BigInt(365 * 24 * 3600);
  const minusTwo = 0xffff_ffff_ffff_fffen;
  assert.deepEqual(
    body,
    Buffer.concat([
      // nodeid, generation, name and attributes valid
      encodeFields(3n, 0n, year, year, 0, 0),
      // ino, size, blocks, times
      encodeFields(2n, 5n, 1n, minusTwo, minusTwo, minusTwo, 7, 7, 7),
      // mode, nlink, uid, gid, rdev, block size, flags
      encodeFields(0o100640, 1, 1000, 1001, 0, 4096, 0),
    ]),
  );
});

test('keeps names of a directory that may change for the time given only', async () => {
  const { root: tree } = mountTree();
  const kernel = new FakeKernel(tree, { mutableSeconds: 1.5 });
  const found = (await kernel.call(1, root, nul('hello.txt'))).body;
  // The name may go, the file behind it never changes.
  assert.deepEqual(found.subarray(16, 24), encodeFields(1n));
  assert.deepEqual(found.subarray(24, 32), encodeFields(BigInt(365 * 24 * 3600)));
  assert.deepEqual(found.subarray(32, 40), encodeFields(500_000_000, 0));
  const absent = (await kernel.call(1, root, nul('nothing'))).body;
  assert.deepEqual(
    absent,
    Buffer.concat([encodeFields(0n, 0n, 1n, 0n, 500_000_000, 0), Buffer.alloc(88)]),
  );
});

test('never takes an inode number of 1 for the root', async () => {
  const kernel = new FakeKernel(mountTree().root);
  const { body } = await kernel.call(1, root, nul('hello.txt'));
  assert.notEqual(body.readBigUInt64LE(0), root);
  const own = await kernel.call(3, root, 0, 0, 0n);
  assert.equal(own.body.readBigUInt64LE(16), 1_000_001n);
});

test('forgets a node when the kernel gives its last count back', async () => {
  const kernel = new FakeKernel(mountTree().root);
  const nodeid = await kernel.lookup(root, 'hello.txt');
  assert.equal(await kernel.lookup(root, 'hello.txt'), nodeid);
  const other = await kernel.lookup(root, 'empty');
  assert.equal(kernel.session.knownInodes, 2);
  kernel.send(2, nodeid, 1n);
  assert.equal((await kernel.call(3, nodeid, 0, 0, 0n)).error, 0);
  kernel.send(42, 0n, 2, 0, nodeid, 1n, other, 1n);
  assert.equal(kernel.session.knownInodes, 0);
  assert.equal((await kernel.call(3, nodeid, 0, 0, 0n)).error, errno.ESTALE);
  assert.equal(await kernel.lookup(root, 'hello.txt'), nodeid);
});

test('counts what a listing with attributes hands out', async () => {
  const kernel = new FakeKernel(mountTree().root);
  const directory = await kernel.lookup(root, 'many');
  const handle = (await kernel.call(27, directory, 0, 0)).body.readBigUInt64LE(0);
  const { body } = await kernel.call(44, directory, handle, 0n, 4096, 0, 0n, 0, 0);
  const nodeids: bigint[] = [];
  for (let at = 0; at < body.length; ) {
    nodeids.push(body.readBigUInt64LE(at));
    const nameLength = body.readUInt32LE(at + 128 + 16);
    at += Math.ceil((128 + 24 + nameLength) / 8) * 8;
  }
  // `.` and `..` are names only.
  assert.deepEqual(nodeids.slice(0, 2), [0n, 0n]);
  assert.ok(nodeids.length > 15);
  assert.equal(kernel.session.knownInodes, 1 + nodeids.length - 2);
  for (const nodeid of nodeids.slice(2)) kernel.send(2, nodeid, 1n);
  kernel.send(2, directory, 1n);
  assert.equal(kernel.session.knownInodes, 0);
});

test('encodes a listing record by record, and goes on from any offset', async () => {
  const builder = new TreeBuilder();
  const names = ['a', 'bb', 'longer-name'];
  const children = names.map((name) => [name, builder.file('x')] as const);
  const kernel = new FakeKernel(builder.directory(() => children, {}, { ino: 77 }));
  const handle = (await kernel.call(27, root, 0, 0)).body.readBigUInt64LE(0);
  const record = (ino: bigint, next: bigint, type: number, name: string): Buffer =>
    Buffer.concat([
      encodeFields(ino, next, name.length, type, Buffer.from(name)),
      Buffer.alloc((8 - (name.length % 8)) % 8),
    ]);
  const records = [
    record(77n, 1n, 4, '.'),
    record(77n, 2n, 4, '..'),
    record(1n, 3n, 8, 'a'),
    record(2n, 4n, 8, 'bb'),
    record(3n, 5n, 8, 'longer-name'),
  ];
  const list = async (offset: bigint, size: number): Promise<Buffer> =>
    (await kernel.call(28, root, handle, offset, size, 0, 0n, 0, 0)).body;
  assert.deepEqual(await list(0n, 4096), Buffer.concat(records));
  assert.deepEqual(await list(3n, 4096), Buffer.concat(records.slice(3)));
  assert.deepEqual(await list(0n, 64), Buffer.concat(records.slice(0, 2)));
  assert.equal((await list(5n, 4096)).length, 0);
  const cramped = await kernel.call(28, root, handle, 4n, 16, 0, 0n, 0, 0);
  assert.equal(cramped.error, errno.EINVAL);
});

test('keeps the listing of an open directory until its reader starts again', async () => {
  const { root: tree, grow } = mountTree();
  const kernel = new FakeKernel(tree);
  const directory = await kernel.lookup(root, 'changing');
  grow();
  const handle = (await kernel.call(27, directory, 0, 0)).body.readBigUInt64LE(0);
  const size = async (offset: bigint): Promise<number> =>
    (await kernel.call(28, directory, handle, offset, 4096, 0, 0n, 0, 0)).body.length;
  assert.equal(await size(0n), 3 * 32);
  grow();
  assert.equal(await size(2n), 32);
  assert.equal(await size(0n), 4 * 32);
});

test('hands out slices of the file as they are, without a copy', async () => {
  const content = noise(1 << 16);
  const { kernel } = kernelWith((builder) => ({
    file: builder.anyFile({
      content,
      read: async () => [content.subarray(0, 9), content.subarray(9)],
    }),
  }));
  const nodeid = await kernel.lookup(root, 'file');
  const handle = await kernel.open(nodeid);
  const { body, parts } = await kernel.call(15, nodeid, handle, 0n, 1 << 16, 0, 0n, 0, 0);
  assert.ok(body.equals(content));
  assert.deepEqual(
    parts.slice(1).map((part) => part.buffer === content.buffer),
    [true, true],
  );
});

test('writes a reply of very many slices as few, since it must be one write', async () => {
  const content = noise(5000);
  const { kernel } = kernelWith((builder) => ({
    file: builder.anyFile({
      content,
      read: async () => Array.from(content, (_, at) => content.subarray(at, at + 1)),
    }),
  }));
  const nodeid = await kernel.lookup(root, 'file');
  const handle = await kernel.open(nodeid);
  const { body, parts } = await kernel.call(15, nodeid, handle, 0n, 5000, 0, 0n, 0, 0);
  assert.ok(body.equals(content));
  assert.ok(parts.length < 1024);
});

test('fails a read that came back short, which the kernel would fill with zeros', async () => {
  const { kernel } = kernelWith((builder) => ({
    file: builder.anyFile({ size: 100, read: async () => [Buffer.alloc(99)] }),
  }));
  const nodeid = await kernel.lookup(root, 'file');
  const handle = await kernel.open(nodeid);
  const { error } = await kernel.call(15, nodeid, handle, 0n, 4096, 0, 0n, 0, 0);
  assert.equal(error, errno.EIO);
  assert.match(kernel.log[0] ?? '', /^error read: at offset 0: a read gave 99 of 100 bytes$/);
});

test('answers a victim of an interrupt at once and tells it to stop', async () => {
  for (const deaf of [false, true]) {
    const { kernel, counters } = kernelWith((builder) => ({ file: builder.hanging(deaf) }));
    const nodeid = await kernel.lookup(root, 'file');
    const handle = await kernel.open(nodeid);
    const victim = kernel.send(15, nodeid, handle, 0n, 4096, 0, 0n, 0, 0);
    await settle();
    assert.equal(kernel.replies.has(victim), false);
    kernel.send(36, 0n, victim);
    assert.equal(kernel.replies.get(victim)?.error, errno.EINTR);
    await settle();
    assert.equal(counters.aborted, 1);
    assert.deepEqual(kernel.log, []);
  }
});

test('ends what is read ahead for a file when somebody closes it', async () => {
  const { kernel, counters } = kernelWith((builder) => ({ file: builder.hanging(false) }));
  const nodeid = await kernel.lookup(root, 'file');
  const [closed, other] = [await kernel.open(nodeid), await kernel.open(nodeid)];
  const read = (handle: bigint) => kernel.send(15, nodeid, handle, 0n, 4096, 0, 0n, 0, 0);
  const victims = [read(closed), read(closed)];
  const kept = read(other);
  await settle();
  assert.equal((await kernel.call(25, nodeid, closed, 0, 0, 0n)).error, 0);
  for (const victim of victims) assert.equal(kernel.replies.get(victim)?.error, errno.EINTR);
  assert.equal(kernel.replies.has(kept), false);
  assert.equal(counters.aborted, 2);
  assert.deepEqual(kernel.log, []);
});

test('asks the kernel to repeat an interrupt whose victim it does not know', async () => {
  const kernel = new FakeKernel(mountTree().root);
  assert.equal((await kernel.call(36, 0n, 99n)).error, errno.EAGAIN);
  assert.equal((await kernel.call(36, 0n)).error, errno.EAGAIN);
});

test('closes a file whose open was interrupted', async () => {
  const builder = new TreeBuilder();
  const opening = Promise.withResolvers<void>();
  const file = builder.file('x');
  const slow = {
    ...file,
    open: async () => {
      await opening.promise;
      return file.open();
    },
  };
  const kernel = new FakeKernel(builder.directory(() => [['file', slow]]));
  const nodeid = await kernel.lookup(root, 'file');
  const victim = kernel.send(14, nodeid, 0, 0);
  kernel.send(36, 0n, victim);
  opening.resolve();
  await settle();
  assert.equal(kernel.replies.get(victim)?.error, errno.EINTR);
  assert.deepEqual([builder.counters.opened, builder.counters.closed], [1, 1]);
  assert.equal(kernel.session.openFiles, 0);
});

test('takes back what it handed out in a reply that nobody awaits', async () => {
  const { kernel, counters } = kernelWith((builder) => ({ file: builder.file('x') }));
  const nodeid = await kernel.lookup(root, 'file');
  kernel.takes = 'none';
  kernel.send(1, root, nul('file'));
  kernel.send(14, nodeid, 0, 0);
  await settle();
  kernel.send(2, nodeid, 1n);
  assert.equal(kernel.session.knownInodes, 0);
  assert.deepEqual([counters.opened, counters.closed], [1, 1]);
});

test('answers EIO where the kernel does not take the reply', async () => {
  const kernel = new FakeKernel(mountTree().root);
  kernel.takes = 'errors only';
  assert.equal((await kernel.call(3, root, 0, 0, 0n)).error, errno.EIO);
  assert.match(kernel.log[0] ?? '', /^error reply: /);
});

test('logs a failure with operation, place and reason, absence never', async () => {
  const builder = new TreeBuilder();
  const failing = {
    ...builder.directory(() => []),
    lookup: async (name: Buffer) => {
      if (name.toString() === 'gone') throw new PbsfsError('not-found', 'not there');
      throw new PbsfsError('unreachable', 'no answer', { context: { snapshot: 'vm/100' } });
    },
  };
  const kernel = new FakeKernel(failing);
  assert.equal((await kernel.call(1, root, nul('gone'))).error, errno.ENOENT);
  assert.equal((await kernel.call(1, root, nul('x'))).error, errno.EIO);
  assert.deepEqual(kernel.log, ['error lookup: vm/100: no answer']);
});

test('stops what is in flight and closes what is open at the end', async () => {
  const { kernel, counters } = kernelWith((builder) => ({ file: builder.hanging(false) }));
  const nodeid = await kernel.lookup(root, 'file');
  const handle = await kernel.open(nodeid);
  const late = kernel.send(15, nodeid, handle, 0n, 4096, 0, 0n, 0, 0);
  await settle();
  await kernel.session.end();
  await settle();
  assert.deepEqual([counters.aborted, counters.closed], [1, 1]);
  assert.equal(kernel.replies.has(late), false);
});

test('refuses writes, terminals, unknown handles and unknown operations', async () => {
  const kernel = new FakeKernel(mountTree().root);
  const errorOf = async (opcode: number, ...fields: (number | bigint)[]): Promise<number> =>
    (await kernel.call(opcode, root, ...fields)).error;
  // setattr, symlink, mknod, mkdir, unlink, rmdir, rename, link, write, setxattr, removexattr, create, …
  for (const opcode of [4, 6, 8, 9, 10, 11, 12, 13, 16, 21, 24, 35, 43, 45, 47, 51]) {
    assert.equal(await errorOf(opcode), 30, `opcode ${opcode}`);
  }
  assert.equal(await errorOf(39), 25);
  assert.equal(await errorOf(15, 9n, 0n, 10, 0), errno.EBADF);
  assert.equal(await errorOf(28, 9n, 0n, 10, 0), errno.EBADF);
  assert.equal(await errorOf(46, 9n, 0n, 3, 0), errno.EBADF);
  for (const opcode of [20, 52, 4711]) assert.equal(await errorOf(opcode), 38);
});

test('lets everybody read, nobody write, and run only what may be run', async () => {
  const { kernel } = kernelWith((builder) => ({
    plain: builder.file('x', { mode: 0o600 }),
    program: builder.file('x', { mode: 0o710 }),
  }));
  const errorOf = async (name: string, mask: number): Promise<number> =>
    (await kernel.call(34, await kernel.lookup(root, name), mask, 0)).error;
  const [execute, write, read] = [1, 2, 4];
  assert.deepEqual([await errorOf('plain', read), await errorOf('plain', read | write)], [0, 30]);
  assert.deepEqual([await errorOf('plain', execute), await errorOf('program', execute)], [13, 0]);
  assert.equal((await kernel.call(34, root, read | execute, 0)).error, 0);
});

test('finds data and holes as lseek(2) wants them', async () => {
  const kernel = new FakeKernel(mountTree().root);
  const nodeid = await kernel.lookup(root, 'sparse.img');
  const handle = await kernel.open(nodeid);
  const seek = async (offset: bigint, whence: number): Promise<bigint | number> => {
    const { error, body } = await kernel.call(46, nodeid, handle, offset, whence, 0);
    return error === 0 ? body.readBigUInt64LE(0) : error;
  };
  const [data, hole] = [3, 4];
  assert.equal(await seek(0n, data), 0n);
  assert.equal(await seek(0n, hole), 4096n);
  assert.equal(await seek(4096n, data), 8n << 20n);
  assert.equal(await seek((8n << 20n) + 4096n, data), 6);
  assert.equal(await seek(16n << 20n, hole), 6);
  assert.equal(await seek((1n << 64n) - 1n, data), 6);
  assert.equal(await seek(0n, 0), errno.EINVAL);
});

test('survives any bytes, and answers every request that wants an answer', async () => {
  const builder = new TreeBuilder();
  const below = [['x', builder.file('x', { xattrs: [] })]] as const;
  const children = [
    ['file', builder.file('some content')],
    ['link', builder.symlink('file')],
    ['directory', builder.directory(() => below)],
    ['pipe', builder.special('fifo')],
  ] as const;
  const tree = builder.directory(() => children);
  const bytes = fc.uint8Array({ maxLength: 80 });
  const small = fc.bigInt({ min: 0n, max: 6n });
  const any = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
  const name = fc.constantFrom('file', 'link', 'directory', 'pipe', '', '..').map(nul);
  const fields = fc
    .array(fc.oneof(small, any), { maxLength: 4 })
    .map((list) => encodeFields(...list));
  const opcode = fc.oneof(fc.integer({ min: 0, max: 55 }), fc.nat());
  const request = fc.tuple(opcode, fc.oneof(small, any), fc.oneof(bytes, name, fields));
  const unanswered = [2, 36, 42];
  await fc.assert(
    fc.asyncProperty(fc.array(request, { maxLength: 40 }), bytes, async (requests, junk) => {
      const kernel = new FakeKernel(tree);
      kernel.session.receive(Buffer.from(junk));
      const awaited = requests.flatMap(([number, nodeid, body]) => {
        const unique = kernel.send(number, nodeid, body);
        return unanswered.includes(number) ? [] : [unique];
      });
      await settle();
      for (const unique of awaited) assert.ok(kernel.replies.has(unique));
      await kernel.session.end();
      assert.deepEqual(kernel.log, []);
    }),
    { numRuns: 500 },
  );
});
