import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { PbsfsError } from '../../../src/errors.ts';
import {
  type Ticket,
  TicketCredentials,
  type TicketOptions,
  tokenCredentials,
} from '../../../src/repository/pbs/credentials.ts';
import { openPbs } from '../../../src/repository/pbs/pbs-repository.ts';
import { temporaryDatastore } from '../../support/encode-datastore.ts';
import { expectError } from '../../support/expect-error.ts';
import { allRights } from '../../support/pbs-server/access.ts';
import { settingsFor } from '../../support/pbs-server/connect.ts';
import {
  PbsServer,
  type PbsServerOptions,
  testPassword,
  testUser,
} from '../../support/pbs-server/server.ts';

const tokenSecret = '00000000-aaaa-bbbb-cccc-000000000000';
const hour = 3_600_000;

/** A server that sells numbered tickets. */
function counter(overrides: Partial<TicketOptions> = {}) {
  const logins: string[] = [];
  const login = async (password: string): Promise<Ticket> => {
    logins.push(password);
    return { ticket: `T${logins.length}`, cookieName: 'C', issuedAt: Date.now() };
  };
  const options = { authId: 'u@pbs', login, password: async () => 'pw', ...overrides };
  return { logins, credentials: new TicketCredentials(options) };
}

suite('a ticket', () => {
  test('is bought once, when first needed, however many need it', async () => {
    const { logins, credentials } = counter();
    using _ = credentials;
    assert.deepEqual(logins, []);
    const all = await Promise.all(Array.from({ length: 5 }, () => credentials.headers()));
    assert.deepEqual(all, Array(5).fill({ cookie: 'C=T1' }));
    assert.deepEqual(logins, ['pw']);
  });

  test('is renewed every quarter of an hour with itself, and the password is asked for once', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval', 'Date'] });
    let asked = 0;
    const { logins, credentials } = counter({
      password: async () => {
        asked += 1;
        return 'pw';
      },
    });
    using _ = credentials;
    await credentials.headers();
    for (let i = 0; i < 12; i += 1) {
      t.mock.timers.tick(hour / 4);
      await new Promise(setImmediate);
    }
    assert.deepEqual(logins.slice(0, 4), ['pw', 'T1', 'T2', 'T3']);
    assert.deepEqual(await credentials.headers(), { cookie: 'C=T13' });
    assert.equal(asked, 1);
  });

  test('that could not be renewed in time is bought anew', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval', 'Date'] });
    const logins: string[] = [];
    const login = async (password: string): Promise<Ticket> => {
      logins.push(password);
      if (password !== 'pw') throw new PbsfsError('unreachable', 'away');
      return { ticket: `T${logins.length}`, cookieName: 'C', issuedAt: Date.now() };
    };
    using credentials = counter({ login }).credentials;
    await credentials.headers();
    t.mock.timers.tick(2 * hour);
    await new Promise(setImmediate);
    const { cookie } = await credentials.headers();
    assert.equal(cookie, `C=T${logins.length}`);
    assert.equal(logins.at(-1), 'pw');
  });

  test('that the server refuses is replaced once for all who used it', async () => {
    const { logins, credentials } = counter();
    using _ = credentials;
    const refused = await credentials.headers();
    const others = await Promise.all([credentials.replace(refused), credentials.replace(refused)]);
    assert.deepEqual(others, [{ cookie: 'C=T2' }, { cookie: 'C=T2' }]);
    assert.deepEqual(await credentials.replace(refused), { cookie: 'C=T2' });
    assert.deepEqual(logins, ['pw', 'pw']);
  });

  test('that was stored is used while it is good, and the password only then', async () => {
    const stored = { ticket: 'old', cookieName: 'C', issuedAt: Date.now() - hour };
    const { logins, credentials } = counter({ stored });
    using _ = credentials;
    const headers = await credentials.headers();
    assert.deepEqual(headers, { cookie: 'C=old' });
    assert.deepEqual(await credentials.replace(headers), { cookie: 'C=T1' });
    assert.deepEqual(logins, ['pw']);
  });

  test('is asked for again after the question failed', async () => {
    let failures = 1;
    const { credentials } = counter({
      password: async () => {
        failures -= 1;
        if (failures >= 0) throw new PbsfsError('access-denied', 'no password was given');
        return 'pw';
      },
    });
    using _ = credentials;
    await assert.rejects(credentials.headers(), expectError('access-denied'));
    assert.deepEqual(await credentials.headers(), { cookie: 'C=T1' });
  });
});

suite('a token', () => {
  test('is sent in one header, its secret encoded', async () => {
    const token = tokenCredentials('u@pbs!t', 'a b%:c');
    const expected = { authorization: 'PBSAPIToken=u@pbs!t:a%20b%25%3Ac' };
    assert.deepEqual(await token.headers(), expected);
    assert.equal(await token.replace(expected), undefined);
  });

  test('whose secret was pasted with its id gets a hint', () => {
    const pasted = [
      `u@pbs!t=${tokenSecret}`,
      `u@pbs!t:${tokenSecret}`,
      `PBSAPIToken=u@pbs!t:${tokenSecret}`,
      `root@pam!x=${tokenSecret}`,
    ];
    for (const secret of pasted) {
      assert.match(tokenCredentials('u@pbs!t', secret).hint, /leave out/, secret);
    }
    for (const secret of [tokenSecret, 'a=b', 'x@y=z']) {
      assert.doesNotMatch(tokenCredentials('u@pbs!t', secret).hint, /leave out/, secret);
    }
  });
});

suite('a login at a server', () => {
  async function start(options: Partial<PbsServerOptions> = {}) {
    const store = temporaryDatastore();
    const server = await PbsServer.start({ directory: store.path, ...options });
    return {
      server,
      async [Symbol.asyncDispose]() {
        await server[Symbol.asyncDispose]();
        store[Symbol.dispose]();
      },
    };
  }

  test('works with both cookie names', async () => {
    for (const hostCookie of [false, true]) {
      await using started = await start({ hostCookie });
      await using repository = await openPbs(settingsFor(started.server));
      await repository.status();
      assert.equal(started.server.count('login'), 1);
    }
  });

  test('with a wrong password or token secret names who was refused', async () => {
    const authId = 'reader@pbs!mount';
    const accounts = [
      { authId, secret: tokenSecret, acl: { '/': allRights } },
      { authId: testUser, secret: testPassword, acl: { '/': allRights } },
    ];
    await using started = await start({ accounts });
    const wrong = settingsFor(started.server, { secret: async () => 'wrong' });
    await assert.rejects(openPbs(wrong), expectError('access-denied', /login of reader@pbs$/));
    const token = { ...wrong, authId };
    await assert.rejects(openPbs(token), expectError('access-denied', /login of reader@pbs!mount/));
    const pasted = { ...token, secret: async () => `${authId}=${tokenSecret}` };
    await assert.rejects(openPbs(pasted), (error) => {
      assert.ok(error instanceof PbsfsError);
      assert.match(error.hint ?? '', /TOKENID=SECRET/);
      assert.doesNotMatch(JSON.stringify([error.message, error.hint]), /aaaa-bbbb/);
      return true;
    });
  });

  test('without any secret says what to set, and asks where it may', async () => {
    await using started = await start();
    const bare = settingsFor(started.server, { secret: async () => undefined });
    await assert.rejects(openPbs(bare), expectError('access-denied', /no password was given/));
    const token = { ...bare, authId: 'reader@pbs!mount' };
    await assert.rejects(openPbs(token), expectError('access-denied', /no secret was given/));
    const asked: string[] = [];
    const promptPassword = async (authId: string) => {
      asked.push(authId);
      return testPassword;
    };
    await using repository = await openPbs({ ...bare, promptPassword });
    await repository.status();
    assert.deepEqual(asked, [testUser]);
  });

  test('takes a stored ticket first, and the prompt where the server does not know it any more', async () => {
    await using started = await start();
    const { server } = started;
    const ticket = server.access.login(testUser, testPassword) ?? '';
    const good = { ticket, cookieName: 'PBSAuthCookie', issuedAt: Date.now() };
    const bare = settingsFor(server, {
      secret: async () => undefined,
      promptPassword: async () => testPassword,
    });
    await using first = await openPbs({ ...bare, storedTicket: async () => good });
    await first.status();
    assert.equal(server.count('login'), 0);
    const unknown = { ...good, ticket: `${ticket}x` };
    await using second = await openPbs({ ...bare, storedTicket: async () => unknown });
    await second.status();
    assert.equal(server.count('login'), 1);
  });

  test('goes on after the ticket has expired', async () => {
    await using started = await start();
    await using repository = await openPbs(settingsFor(started.server));
    started.server.access.clockOffset += 3 * 3600;
    await Promise.all([repository.status(), repository.status(), repository.listGroups([])]);
    assert.equal(started.server.count('login'), 2);
  });

  test('that needs a second factor is refused with a way out', async () => {
    await using started = await start();
    started.server.access.login = () => 'PBS:!tfa!%7B%22totp%22%3Atrue%7D:6B0DCD1B::c2ln';
    await assert.rejects(openPbs(settingsFor(started.server)), (error) => {
      assert.ok(error instanceof PbsfsError && error.code === 'access-denied');
      assert.match(error.message, /second factor/);
      assert.match(error.hint ?? '', /API token/);
      return true;
    });
  });
});
