import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeStat, decodeStatV1 } from '../../../src/formats/pxar/stat.ts';
import { expectError } from '../../support/expect-error.ts';

function stat(seconds: bigint, nanos = 0, mode = 0o100644n): Buffer {
  const bytes = Buffer.alloc(40);
  bytes.writeBigUInt64LE(mode, 0);
  bytes.writeBigUInt64LE(0x0000_0001_0050_0000n, 8);
  bytes.writeUInt32LE(1000, 16);
  bytes.writeUInt32LE(0xffff_fffe, 20);
  bytes.writeBigInt64LE(seconds, 24);
  bytes.writeUInt32LE(nanos, 32);
  return bytes;
}

test('an ENTRY gives mode, owner, flags and time', () => {
  assert.deepEqual(decodeStat(stat(1_700_000_000n, 123_456_789), 0), {
    mode: 0o100644,
    flags: 0x50_0000,
    uid: 1000,
    gid: 0xffff_fffe,
    mtime: { seconds: 1_700_000_000, nanos: 123_456_789 },
  });
});

test('times before 1970 and after 2106 keep their seconds', () => {
  for (const seconds of [-2, -1, 0, -2_208_988_800, 8_589_934_592, 13_569_465_600]) {
    assert.deepEqual(decodeStat(stat(BigInt(seconds), 5), 0).mtime, { seconds, nanos: 5 });
  }
});

test('a time that is none, or a mode with unknown bits, is corrupt', () => {
  assert.throws(() => decodeStat(stat(0n, 1_000_000_000), 0), expectError('corrupt', /no time/));
  assert.throws(() => decodeStat(stat(2n ** 60n), 0), expectError('corrupt', /no time/));
  assert.throws(() => decodeStat(stat(0n, 0, 0o200000n), 0), expectError('corrupt', /mode/));
  assert.throws(() => decodeStat(stat(0n, 0, 2n ** 63n), 0), expectError('corrupt', /mode/));
});

test('the old layout counts nanoseconds since 1970', () => {
  const bytes = stat(0n).subarray(0, 32);
  bytes.writeBigUInt64LE(1_600_000_000_987_654_321n, 24);
  assert.deepEqual(decodeStatV1(bytes, 0).mtime, { seconds: 1_600_000_000, nanos: 987_654_321 });
  bytes.writeBigUInt64LE(2n ** 64n - 1n, 24);
  assert.deepEqual(decodeStatV1(bytes, 0).mtime, { seconds: 18_446_744_073, nanos: 709_551_615 });
});
