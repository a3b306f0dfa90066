import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import {
  readStoredFingerprint,
  readStoredTicket,
} from '../../../src/repository/pbs/stored-credentials.ts';

const now = () => Math.floor(Date.now() / 1000);

suite('what proxmox-backup-client has stored', () => {
  let folder: string;
  const store = (name: string, content: string) =>
    writeFileSync(join(folder, 'proxmox-backup', name), content);

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'pbsfs-stored-'));
    mkdirSync(join(folder, 'proxmox-backup'));
  });
  after(() => rmSync(folder, { recursive: true }));

  const ticketOf = (host: string, authId: string) =>
    readStoredTicket({ host, authId }, { XDG_RUNTIME_DIR: folder });

  test('a ticket that is still good is found by host and user', async () => {
    const timestamp = now() - 600;
    store(
      'tickets',
      JSON.stringify({
        'pbs.example': { 'u@pbs': { timestamp, ticket: 'PBS:u@pbs:X::y', token: 'csrf' } },
      }),
    );
    const ticket = await ticketOf('pbs.example', 'u@pbs');
    assert.equal(ticket?.ticket, 'PBS:u@pbs:X::y');
    assert.equal(ticket.issuedAt, timestamp * 1000);
    assert.equal(await ticketOf('pbs.example', 'v@pbs'), undefined);
    assert.equal(await ticketOf('other', 'u@pbs'), undefined);
    assert.equal(await readStoredTicket({ host: 'pbs.example', authId: 'u@pbs' }, {}), undefined);
  });

  test('an old ticket, one of the future and a damaged file count as none', async () => {
    const entry = (timestamp: unknown) =>
      JSON.stringify({ h: { 'u@pbs': { timestamp, ticket: 'T', token: 'c' } } });
    const rows: readonly [string, boolean][] = [
      [entry(now() - 7130), true],
      [entry(now() - 7150), false],
      [entry(now() + 290), true],
      [entry(now() + 310), false],
      [entry('soon'), false],
      ['{}', false],
      ['[]', false],
      ['null', false],
      ['{"h":null}', false],
      ['{"h":{"u@pbs":7}}', false],
      ['{"h":{"__proto__":{}}}', false],
      ['not json', false],
      ['', false],
    ];
    for (const [content, isGood] of rows) {
      store('tickets', content);
      assert.equal((await ticketOf('h', 'u@pbs')) !== undefined, isGood, content);
    }
  });

  test('a fingerprint is found by host', async () => {
    store('fingerprints', 'a.example AA:01\n\nb.example\tBB:02\nbroken\n[::1] CC:03\n');
    const env = { XDG_CONFIG_HOME: folder };
    assert.equal(await readStoredFingerprint('b.example', env), 'BB:02');
    assert.equal(await readStoredFingerprint('[::1]', env), 'CC:03');
    assert.equal(await readStoredFingerprint('broken', env), undefined);
    assert.equal(await readStoredFingerprint('c.example', env), undefined);
    assert.equal(await readStoredFingerprint('a.example', { HOME: '/nowhere' }), undefined);
  });
});
