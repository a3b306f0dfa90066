import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { PbsfsError } from '../../../src/errors.ts';
import {
  decodeDatastores,
  decodeGroups,
  decodeNamespaces,
  decodePrivileges,
  decodeRelease,
  decodeSnapshots,
  decodeStatus,
  decodeTicket,
} from '../../../src/repository/pbs/answers.ts';
import { expectError } from '../../support/expect-error.ts';

const group = { namespace: ['a'], type: 'vm', id: '100' } as const;
const groupFields = { 'backup-type': 'vm', 'backup-id': '100' };
const manifest = { filename: 'index.json.blob', size: 9, 'crypt-mode': 'none' };

suite('the answers of the server', () => {
  test('are taken field by field, unknown ones ignored', () => {
    const entry = { ...groupFields, owner: 'u@pbs', comment: 'hi\n', 'last-backup': 5, new: [1] };
    assert.deepEqual(decodeGroups([entry, { ...groupFields, 'last-backup': 0 }], ['a']), [
      { group, owner: 'u@pbs', comment: 'hi', lastBackup: 5 },
      { group, owner: undefined, comment: undefined },
    ]);
    assert.deepEqual(decodeNamespaces([{ ns: '', comment: 'x' }, { ns: 'a/b' }]), [[], ['a', 'b']]);
    assert.deepEqual(decodeStatus({ total: 3, used: 2, avail: 1, counts: {} }), {
      total: 3,
      used: 2,
      available: 1,
    });
    assert.deepEqual(decodeDatastores([{ store: 's', comment: null }]), ['s']);
    assert.deepEqual(decodePrivileges({ '/a': { 'Datastore.Read': true } }, '/a'), [
      'Datastore.Read',
    ]);
    assert.deepEqual(decodePrivileges({}, '/a'), []);
    assert.equal(decodeRelease({ version: '3.3', release: '0' }), '0');
    assert.deepEqual(decodeTicket({ ticket: 'T' }), { ticket: 'T' });
  });

  test('describe a finished, an unfinished and a broken snapshot', () => {
    const upid = 'UPID:x';
    const entries = [
      {
        ...{ ...groupFields, 'backup-time': 30, owner: 'u@pbs', comment: 'note', protected: true },
        ...{ verification: { upid, state: 'ok' }, fingerprint: 'aa:bb', size: 21 },
        files: [
          { filename: 'a.img.fidx', size: 12, 'crypt-mode': 'encrypt' },
          manifest,
          { filename: 'client.log.blob' },
        ],
      },
      { ...groupFields, 'backup-time': 20, files: [{ filename: 'a.conf.blob' }], protected: false },
      { ...groupFields, 'backup-time': 10, files: [{ filename: 'index.json.blob' }] },
    ];
    const [broken, unfinished, finished] = decodeSnapshots(entries, group);
    assert.deepEqual(finished?.info, {
      snapshot: { ...group, time: 30 },
      finished: true,
      owner: 'u@pbs',
      comment: 'note',
      protected: true,
      verification: { state: 'ok', upid },
      fingerprint: 'aa:bb',
      size: 12,
      files: [
        { filename: 'a.img.fidx', size: 12, cryptMode: 'encrypt' },
        { filename: 'index.json.blob', size: undefined, cryptMode: undefined },
        { filename: 'client.log.blob', size: undefined, cryptMode: undefined },
      ],
    });
    assert.deepEqual([unfinished?.info.finished, unfinished?.isBroken], [false, false]);
    assert.equal(unfinished?.info.size, undefined);
    assert.deepEqual([broken?.info.finished, broken?.isBroken], [true, true]);
  });

  test('count null as absent, as some servers send it for empty lists', () => {
    assert.deepEqual(decodeGroups(null, []), []);
    assert.deepEqual(decodeSnapshots(null, group), []);
    const bare = {
      ...groupFields,
      'backup-time': 1,
      files: null,
      comment: null,
      verification: null,
    };
    assert.deepEqual(decodeSnapshots([bare], group)[0]?.info.files, []);
  });

  test('lose what belongs to another group, and types that are not known yet', () => {
    const others = [
      { ...groupFields, 'backup-id': '101', 'backup-time': 1 },
      { ...groupFields, 'backup-type': 'ct', 'backup-time': 1 },
      { ...groupFields, 'backup-type': 'new', 'backup-time': 1 },
    ];
    assert.deepEqual(decodeSnapshots(others, group), []);
    assert.deepEqual(decodeGroups([{ ...groupFields, 'backup-type': 'new' }], []), []);
  });

  test('of a wrong form are corrupt, and name the field', () => {
    const wrong: readonly (() => unknown)[] = [
      () => decodeGroups({}, []),
      () => decodeGroups([7], []),
      () => decodeGroups([{ 'backup-type': 'vm' }], []),
      () => decodeGroups([{ 'backup-type': 'vm', 'backup-id': '../..' }], []),
      () => decodeGroups([{ ...groupFields, owner: 7 }], []),
      () => decodeGroups([{ ...groupFields, 'last-backup': '5' }], []),
      () => decodeSnapshots([groupFields], group),
      () => decodeSnapshots([{ ...groupFields, 'backup-time': 1.5 }], group),
      () => decodeSnapshots([{ ...groupFields, 'backup-time': -1 }], group),
      () => decodeSnapshots([{ ...groupFields, 'backup-time': 1, files: 'x' }], group),
      () =>
        decodeSnapshots(
          [{ ...groupFields, 'backup-time': 1, files: [{ filename: 'a/b' }] }],
          group,
        ),
      () => decodeNamespaces([{ ns: 'a//b' }]),
      () => decodeNamespaces([{ ns: '../x' }]),
      () => decodeStatus([]),
      () => decodeStatus({ total: 2 ** 60 }),
      () => decodeTicket('x'),
    ];
    for (const decode of wrong) {
      assert.throws(decode, expectError('corrupt', /expected form/), String(decode));
    }
  });

  test('of any JSON are decoded or corrupt', () => {
    const decoders = [
      (value: unknown) => decodeGroups(value, []),
      (value: unknown) => decodeSnapshots(value, group),
      decodeNamespaces,
      decodeStatus,
      decodeDatastores,
      (value: unknown) => decodePrivileges(value, '/a'),
      decodeTicket,
    ];
    const fields = fc.record(
      {
        'backup-type': fc.constantFrom('vm', 'x', 7, null),
        'backup-id': fc.oneof(fc.string(), fc.constant('100')),
        'backup-time': fc.oneof(fc.integer(), fc.double(), fc.constant(null)),
        files: fc.jsonValue(),
        verification: fc.jsonValue(),
        size: fc.jsonValue(),
        ns: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.array(fields)), (value) => {
        for (const decode of decoders) {
          try {
            decode(value);
          } catch (error) {
            assert.ok(error instanceof PbsfsError && error.code === 'corrupt', String(error));
          }
        }
      }),
    );
  });
});
