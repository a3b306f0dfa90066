import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { crc32, inflateRawSync } from 'node:zlib';
import { streamTree } from '../../src/transfer/stream-tree.ts';
import { ZipFormat } from '../../src/transfer/zip-format.ts';
import {
  encodeCentralHeader,
  encodeEnd,
  encodeLocalHeader,
} from '../../src/transfer/zip-records.ts';
import type { Directory } from '../../src/tree/node.ts';
import { needs } from '../support/requirements.ts';
import { directory, file, special, symlink } from './support/node-tree.ts';

async function writeZip(root: Directory): Promise<{ bytes: Buffer; losses: Map<string, number> }> {
  const parts: Buffer[] = [];
  const sink = { write: async (bytes: Uint8Array) => void parts.push(Buffer.from(bytes)) };
  const everything = { patterns: [], stripComponents: 0 };
  const report = await streamTree(root, everything, (r) => new ZipFormat(sink, r));
  assert.deepEqual(report.failures, []);
  return { bytes: Buffer.concat(parts), losses: report.losses };
}

test('a small file has its sizes in front, in local header and central directory alike', async () => {
  const content = Buffer.from('abc '.repeat(100));
  const { bytes } = await writeZip(directory({ ä: file(content, { mode: 0o640 }) }));
  assert.equal(bytes.readUInt32LE(0), 0x04034b50);
  const [flags, method] = [bytes.readUInt16LE(6), bytes.readUInt16LE(8)];
  assert.deepEqual([flags, method], [1 << 11, 8]);
  const compressed = bytes.readUInt32LE(18);
  assert.deepEqual([bytes.readUInt32LE(14), bytes.readUInt32LE(22)], [crc32(content), 400]);
  const start = 30 + bytes.readUInt16LE(26) + bytes.readUInt16LE(28);
  assert.ok(inflateRawSync(bytes.subarray(start, start + compressed)).equals(content));
  const central = start + compressed;
  assert.equal(bytes.readUInt32LE(central), 0x02014b50);
  assert.ok(bytes.subarray(central + 16, central + 28).equals(bytes.subarray(14, 26)));
  assert.equal(bytes.readUInt32LE(central + 38) >>> 16, 0o100640);
  const end = bytes.length - 22;
  assert.deepEqual(
    [bytes.readUInt32LE(end), bytes.readUInt16LE(end + 10), bytes.readUInt32LE(end + 16)],
    [0x06054b50, 1, central],
  );
});

/** What Python makes of it: name, Unix mode, size, hash of the content. */
const script = `
import hashlib, io, json, sys, zipfile
archive = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))
json.dump([[i.filename, i.external_attr >> 16, i.file_size, i.compress_type, archive.read(i).decode('latin1')[:20]]
           for i in archive.infolist()], sys.stdout)
`;

test('Python reads back files, links and directories', { skip: needs('python3') }, async () => {
  const large = randomBytes(3_000_000);
  const root = directory({
    d: directory({ empty: file('') }, { mode: 0o2775 }),
    large: file(large),
    link: symlink('d/empty'),
    text: file('text', { mode: 0o4755 }),
  });
  const { bytes } = await writeZip(root);
  const output = execFileSync('python3', ['-c', script], { input: bytes, maxBuffer: 1 << 26 });
  assert.deepEqual(JSON.parse(output.toString()), [
    ['d/', 0o042775, 0, 0, ''],
    ['d/empty', 0o100644, 0, 0, ''],
    ['large', 0o100644, 3_000_000, 8, large.toString('latin1', 0, 20)],
    ['link', 0o120777, 7, 0, 'd/empty'],
    ['text', 0o104755, 4, 0, 'text'],
  ]);
});

test('what zip cannot hold is counted', async () => {
  const shared = { ino: 5, nlink: 2 };
  const { losses } = await writeZip(
    directory({
      a: file('a', shared),
      b: file('a', shared),
      p: special('fifo'),
      x: file('x', { xattrs: { 'user.a': '1' } }),
    }),
  );
  assert.deepEqual(
    [...losses],
    [
      ['hard links (written as files of their own)', 1],
      ['device nodes, fifos and sockets (zip has none)', 1],
      ['extended attributes (zip has none)', 1],
    ],
  );
});

test('what does not fit into four bytes goes to zip64 fields', async () => {
  const attributes = await file('').attributes();
  const entry = {
    path: Buffer.from('f'),
    attributes,
    isDeflated: false,
    isStreamed: false,
    crc: 1,
    compressedSize: 5_000_000_000,
    size: 6_000_000_000,
    offset: 7_000_000_000,
  };
  const local = encodeLocalHeader(entry);
  assert.deepEqual([local.readUInt32LE(18), local.readUInt32LE(22)], [0xffffffff, 0xffffffff]);
  assert.deepEqual([local.readUInt16LE(31), local.readUInt16LE(33)], [1, 16]);
  assert.equal(local.readBigUInt64LE(35), 6_000_000_000n);
  assert.equal(local.readBigUInt64LE(43), 5_000_000_000n);
  const central = encodeCentralHeader(entry);
  assert.equal(central.readUInt32LE(42), 0xffffffff);
  assert.equal(central.readBigUInt64LE(47 + 4 + 16), 7_000_000_000n);
  const end = encodeEnd({ entries: 70_000, size: 10, offset: 100 });
  assert.equal(end.readUInt32LE(0), 0x06064b50);
  assert.equal(end.readBigUInt64LE(32), 70_000n);
  assert.equal(end.readUInt32LE(56), 0x07064b50);
  assert.equal(end.readBigUInt64LE(64), 110n);
  assert.equal(end.readUInt16LE(56 + 20 + 10), 0xffff);
});
