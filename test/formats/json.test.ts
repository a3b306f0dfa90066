/** JSON as PBS signs it: numbers by their text, keys by their bytes, and no way to exhaust the stack. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canonicalJson, isJsonObject, JsonReader, parseJson } from '../../src/formats/json.ts';
import { expectError } from '../support/expect-error.ts';

function canonical(text: string): string {
  return canonicalJson(parseJson(text, 'test'));
}

test('the canonical form has sorted keys and no white space', () => {
  assert.equal(
    canonical(' { "b" : [ 1 , true , "x y" ] , "a" : { "d" : { } , "c" : [ ] } } '),
    '{"a":{"c":[],"d":{}},"b":[1,true,"x y"]}',
  );
});

test('keys are in the order of their bytes, not of their UTF-16 units', () => {
  // U+FFFD is EF BF BD, U+10000 is F0 90 80 80, but D800 comes before FFFD.
  assert.equal(
    canonical('{"\u{10000}":1,"\ufffd":2,"a":3,"B":4}'),
    '{"B":4,"a":3,"\ufffd":2,"\u{10000}":1}',
  );
});

test('keys that look like numbers, and the names of prototype members, are ordinary keys', () => {
  assert.equal(
    canonical('{"toString":1,"__proto__":{"z":1,"a":2},"10":3,"9":4}'),
    '{"10":3,"9":4,"__proto__":{"a":2,"z":1},"toString":1}',
  );
});

test('numbers keep the text they were written in', () => {
  for (const number of [
    '0',
    '-1',
    '9007199254740991',
    '9007199254740993',
    '18446744073709551615',
    '1.0',
    '0.10',
  ]) {
    assert.equal(canonical(`[${number}]`), `[${number}]`);
  }
});

test('strings are escaped as little as JSON allows', () => {
  assert.equal(
    canonical(String.raw`["\u0041\/\u00e4\u2028\u007f", "\"\\\b\f\n\r\t\u0001\u001F"]`),
    `["A/ä\u2028\x7f",${String.raw`"\"\\\b\f\n\r\t\u0001\u001f"`}]`,
  );
});

test('a null cannot be signed, wherever it is', () => {
  for (const text of ['null', '[null]', '{"a":{"b":[1,null]}}']) {
    assert.throws(() => canonical(text), expectError('corrupt', /null/));
  }
});

test('nesting is taken up to 128 levels, as in PBS', () => {
  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
  assert.equal(canonical(nested(128)), nested(128));
  for (const depth of [129, 10_000, 1_000_000]) {
    assert.throws(() => parseJson(nested(depth), 'test'), expectError('corrupt', /too deeply/));
  }
  const objects = `${'{"a":'.repeat(200_000)}1${'}'.repeat(200_000)}`;
  assert.throws(() => parseJson(objects, 'test'), expectError('corrupt', /too deeply/));
});

test('what is no JSON is named and not quoted', () => {
  const texts = ['', 'secret', '{"a":secret}', '[1,]', '\ufeff{}', '{"a":1}}', "{'a':1}"];
  for (const text of texts) {
    for (const input of [text, Buffer.from(text)]) {
      assert.throws(
        () => parseJson(input, 'test file'),
        (error) => {
          assert.doesNotMatch(JSON.stringify(error) + String(error), /secret/);
          return expectError('corrupt', /^test file is not JSON$/)(error);
        },
      );
    }
  }
});

test('bytes that are no UTF-8 are no JSON', () => {
  const bytes = Buffer.from([0x22, 0xff, 0x22]);
  assert.throws(() => parseJson(bytes, 'test'), expectError('corrupt', /not JSON/));
});

test('a number kept as text is not an object', () => {
  assert.ok(!isJsonObject(parseJson('18446744073709551615', 'test')));
  assert.ok(!isJsonObject(parseJson('[]', 'test')));
  assert.ok(!isJsonObject(parseJson('null', 'test')));
  assert.ok(isJsonObject(parseJson('{}', 'test')));
});

test('a reader names the member that is wrong', () => {
  const reader = new JsonReader(parseJson('{"s":"x","n":1,"l":[],"z":null}', 'test'), 'thing');
  assert.equal(reader.string('s'), 'x');
  assert.equal(reader.integer('n'), 1);
  assert.deepEqual(reader.list('l'), []);
  assert.equal(reader.optionalString('z'), undefined);
  assert.equal(reader.get('toString'), undefined);
  assert.throws(() => reader.string('n'), expectError('corrupt', /^thing: 'n' is not a string$/));
  assert.throws(() => reader.optionalString('n'), expectError('corrupt', /'n'/));
  assert.throws(() => reader.integer('s'), expectError('corrupt', /'s' is not a whole number/));
  assert.throws(() => reader.list('s'), expectError('corrupt', /'s' is not a list/));
  assert.throws(() => new JsonReader([], 'thing'), expectError('corrupt', /not a JSON object/));
});
