import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { streamTree } from '../../src/transfer/stream-tree.ts';
import { TarFormat } from '../../src/transfer/tar-format.ts';
import type { Directory, Node } from '../../src/tree/node.ts';
import { needs } from '../support/requirements.ts';
import { directory, file, special, symlink } from './support/node-tree.ts';

async function writeTar(root: Directory): Promise<Buffer> {
  const parts: Buffer[] = [];
  const sink = { write: async (bytes: Uint8Array) => void parts.push(Buffer.from(bytes)) };
  const everything = { patterns: [], stripComponents: 0 };
  const report = await streamTree(root, everything, (r) => new TarFormat(sink, r));
  assert.deepEqual(report.failures, []);
  return Buffer.concat(parts);
}

/** A header as POSIX describes it, field by field. */
function headerAt(bytes: Buffer, offset: number): Record<string, string> {
  const fields: Record<string, readonly [number, number]> = {
    name: [0, 100],
    mode: [100, 8],
    uid: [108, 8],
    gid: [116, 8],
    size: [124, 12],
    mtime: [136, 12],
    checksum: [148, 8],
    type: [156, 1],
    linkname: [157, 100],
    magic: [257, 6],
    version: [263, 2],
    devmajor: [329, 8],
    devminor: [337, 8],
  };
  return Object.fromEntries(
    Object.entries(fields).map(([name, [start, length]]) => {
      const field = bytes.subarray(offset + start, offset + start + length);
      return [name, field.toString('latin1').replace(/\0+$/, '')];
    }),
  );
}

test('an entry that fits has one header, a content in blocks, and two blocks of zeros at the end', async () => {
  const mtime = { seconds: 1_700_000_000, nanos: 0 };
  const content = 'x'.repeat(513);
  const bytes = await writeTar(
    directory({ f: file(content, { mode: 0o640, uid: 1000, gid: 100, mtime }) }, { mtime }),
  );
  assert.equal(bytes.length, 512 * (1 + 1 + 2 + 2));
  const header = headerAt(bytes, 512);
  const sum = bytes
    .subarray(512, 1024)
    .reduce((total, byte, i) => total + (i >= 148 && i < 156 ? 0x20 : byte), 0);
  assert.deepEqual(header, {
    name: 'f',
    mode: '0000640',
    uid: '0001750',
    gid: '0000144',
    size: '00000001001',
    mtime: '14524770400',
    checksum: `${sum.toString(8).padStart(6, '0')}\0 `,
    type: '0',
    linkname: '',
    magic: 'ustar',
    version: '00',
    devmajor: '0000000',
    devminor: '0000000',
  });
  assert.equal(bytes.subarray(1024, 1537).toString(), content);
  assert.ok(bytes.subarray(1537).every((byte) => byte === 0));
});

test('records say their own length, whatever the number of its digits', async () => {
  for (let length = 80; length < 130; length++) {
    const mtime = { seconds: 1, nanos: 0 };
    const xattrs = { 'user.x': 'v'.repeat(length) };
    const bytes = await writeTar(directory({ f: file('', { mtime, xattrs }) }, { mtime }));
    const { type, size = '' } = headerAt(bytes, 512);
    assert.equal(type, 'x');
    const records = bytes.subarray(1024, 1024 + Number.parseInt(size, 8)).toString();
    assert.equal(records, `${records.length} SCHILY.xattr.user.x=${'v'.repeat(length)}\n`);
  }
});

/** What Python's tarfile makes of it. */
const script = `
import base64, io, json, sys, tarfile
b64 = lambda text: base64.b64encode(text.encode('utf-8', 'surrogateescape')).decode()
archive = tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read()), encoding='utf-8', errors='surrogateescape')
json.dump([[b64(m.name), m.type.decode(), m.mode, m.uid, m.gid, m.size, str(m.mtime), b64(m.linkname)] for m in archive], sys.stdout)
`;
const kinds: Record<string, string> = { file: '0', symlink: '2', directory: '5', fifo: '6' };

test('Python reads back whatever names, owners and times there are', {
  skip: needs('python3'),
}, async () => {
  const name = fc
    .uint8Array({ minLength: 1, maxLength: 255 })
    .map((bytes) => Buffer.from(bytes.map((byte) => (byte === 0 || byte === 0x2f ? 0x41 : byte))))
    .filter((bytes) => !['.', '..'].includes(bytes.toString('latin1')));
  const options = fc.record({
    mode: fc.nat(0o7777),
    uid: fc.nat(0xfffffffe),
    gid: fc.nat(0xfffffffe),
    mtime: fc.record({
      seconds: fc.integer({ min: -(2 ** 33), max: 2 ** 35 }),
      nanos: fc.constant(0),
    }),
  });
  const node: fc.Arbitrary<Node> = fc.oneof(
    fc.tuple(fc.string(), options).map(([content, given]) => file(content, given)),
    fc.tuple(name, options).map(([target, given]) => symlink(target, given)),
    options.map((given) => special('fifo', given)),
    options.map((given) => directory({}, given)),
  );
  const entries = fc.sample(fc.tuple(name, node), { numRuns: 300, seed: 7 });
  const unique = [
    ...new Map(entries.map((entry) => [entry[0].toString('latin1'), entry])).values(),
  ];
  const bytes = await writeTar(directory(unique));
  const output = execFileSync('python3', ['-c', script], { input: bytes, maxBuffer: 1 << 26 });
  const found = (JSON.parse(output.toString()) as unknown[][]).slice(1);
  const expected = await Promise.all(
    unique.map(async ([path, entry]) => {
      const { mode, uid, gid, size, mtime } = await entry.attributes();
      const target = entry.kind === 'symlink' ? await entry.target() : Buffer.alloc(0);
      const length = entry.kind === 'file' ? size : 0;
      const [name64, target64] = [path.toString('base64'), target.toString('base64')];
      return [name64, kinds[entry.kind], mode & 0o7777, uid, gid, length, mtime.seconds, target64];
    }),
  );
  assert.deepEqual(
    found.map((row) => row.with(6, Number(row[6]))),
    expected,
  );
});
