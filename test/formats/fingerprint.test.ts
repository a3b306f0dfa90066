import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  formatFingerprint,
  formatShortFingerprint,
  parseFingerprint,
} from '../../src/formats/fingerprint.ts';

const bytes = Buffer.from(Array.from({ length: 32 }, (_, i) => 8 * i + 7));
const long =
  '07:0f:17:1f:27:2f:37:3f:47:4f:57:5f:67:6f:77:7f:87:8f:97:9f:a7:af:b7:bf:c7:cf:d7:df:e7:ef:f7:ff';

test('a fingerprint is written in full, and short with its first 8 bytes', () => {
  assert.equal(formatFingerprint(bytes), long);
  assert.equal(formatShortFingerprint(bytes), '07:0f:17:1f:27:2f:37:3f');
});

test('a fingerprint is read in any case, with or without colons', () => {
  for (const text of [long, long.toUpperCase(), long.replaceAll(':', ''), long.replace(':', '')]) {
    assert.deepEqual(parseFingerprint(text), bytes);
  }
});

test('nothing else is a fingerprint', () => {
  const wrong = [
    '',
    ':',
    long.slice(3),
    `${long}:00`,
    long.slice(1),
    long.replace('0', 'g'),
    ` ${long}`,
  ];
  for (const text of [...wrong, long.replaceAll(':', '-'), `${long}\n`]) {
    assert.equal(parseFingerprint(text), undefined, text);
  }
});
