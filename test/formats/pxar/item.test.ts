import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  decodeItemHeader,
  type ItemName,
  isAttributeItem,
  itemNameAt,
  itemTypes,
} from '../../../src/formats/pxar/item.ts';
import { sipHash } from '../../../src/formats/pxar/sip-hash.ts';
import { expectError } from '../../support/expect-error.ts';

/** The text that each type is the hash of. */
const hashedTexts: Readonly<Record<ItemName, string>> = {
  FORMAT_VERSION: 'VERSION',
  PRELUDE: 'PRELUDE',
  ENTRY: 'ENTRY_V2',
  ENTRY_V1: 'ENTRY',
  FILENAME: 'FILENAME',
  SYMLINK: 'SYMLINK',
  HARDLINK: 'HARDLINK',
  DEVICE: 'DEVICE',
  XATTR: 'XATTR',
  ACL_USER: 'ACL_USER',
  ACL_GROUP: 'ACL_GROUP',
  ACL_GROUP_OBJ: 'ACL_GROUP_OBJ',
  ACL_DEFAULT: 'ACL_DEFAULT',
  ACL_DEFAULT_USER: 'ACL_DEFAULT_USER',
  ACL_DEFAULT_GROUP: 'ACL_DEFAULT_GROUP',
  FCAPS: 'FCAPS',
  QUOTA_PROJID: 'QUOTA_PROJID',
  PAYLOAD: 'PXAR_PAYLOAD',
  PAYLOAD_REF: 'PXAR_PAYLOAD_REF',
  GOODBYE: 'GOODBYE',
  PAYLOAD_START_MARKER: 'PXAR_PAYLOAD_START_MARKER',
  PAYLOAD_TAIL_MARKER: 'PXAR_PAYLOAD_TAIL_MARKER',
};

function header(name: ItemName, contentSize: number | bigint): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeUInt32LE(itemTypes[name].low, 0);
  bytes.writeUInt32LE(itemTypes[name].high, 4);
  bytes.writeBigUInt64LE(BigInt(contentSize) + 16n, 8);
  return bytes;
}

test('every item type is the hash of its text', () => {
  assert.deepEqual(Object.keys(hashedTexts).sort(), Object.keys(itemTypes).sort());
  for (const [name, text] of Object.entries(hashedTexts)) {
    const { high, low } = itemTypes[name as ItemName];
    assert.deepEqual(sipHash(Buffer.from(`__PROXMOX_FORMAT_${text}__`)), { high, low }, name);
  }
});

test('a header gives the name of its item and the size of all of it', () => {
  assert.deepEqual(decodeItemHeader(header('PAYLOAD', 1000), 0), { name: 'PAYLOAD', size: 1016 });
  const behind = Buffer.concat([Buffer.alloc(3), header('ENTRY', 40)]);
  assert.deepEqual(decodeItemHeader(behind, 3), { name: 'ENTRY', size: 56 });
});

test('sizes beyond what an item can have are corrupt', () => {
  const limits: readonly (readonly [ItemName, number, number])[] = [
    ['FORMAT_VERSION', 8, 8],
    ['ENTRY', 40, 40],
    ['ENTRY_V1', 32, 32],
    ['FILENAME', 1, 4097],
    ['SYMLINK', 2, 4097],
    ['HARDLINK', 9, 4105],
    ['DEVICE', 16, 16],
    ['XATTR', 1, 65791],
    ['FCAPS', 0, 65791],
    ['ACL_USER', 16, 16],
    ['ACL_DEFAULT', 32, 32],
    ['QUOTA_PROJID', 8, 8],
    ['PAYLOAD_REF', 16, 16],
  ];
  for (const [name, min, max] of limits) {
    for (const size of [min, max]) assert.equal(decodeItemHeader(header(name, size), 0).name, name);
    for (const size of [min - 1, max + 1]) {
      assert.throws(() => decodeItemHeader(header(name, size), 0), expectError('corrupt', /bytes/));
    }
  }
});

test('a size smaller than a header or beyond 2^53−1 is corrupt', () => {
  for (const size of [-16n, -1n, 2n ** 53n, 2n ** 63n]) {
    const bytes = header('PAYLOAD', 0);
    bytes.writeBigUInt64LE(size + 16n, 8);
    assert.throws(() => decodeItemHeader(bytes, 0), expectError('corrupt'));
  }
});

test('an unknown type is corrupt, also where half of it is that of an item', () => {
  const half = header('ENTRY', 40);
  half.writeUInt32LE(1, 4);
  for (const bytes of [Buffer.alloc(16), Buffer.alloc(16, 0xff), half]) {
    assert.equal(itemNameAt(bytes, 0), undefined);
    assert.throws(() => decodeItemHeader(bytes, 0), expectError('corrupt', /unknown type/));
  }
});

test('attributes are what may stand between an ENTRY and its content', () => {
  const attributes = (Object.keys(itemTypes) as ItemName[]).filter(isAttributeItem);
  assert.equal(attributes.length, 9);
  assert.ok(!attributes.includes('PAYLOAD') && !attributes.includes('FILENAME'));
});
