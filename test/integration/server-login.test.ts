/** Ways to a server by the command line: secrets, fingerprints, proxies, what others have configured, `doctor`. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryMountPoint } from '../cli/mounted.ts';
import { type CliResult, runCli } from '../cli/run-cli.ts';
import { temporaryDatastore, vectorKey, writeSnapshot } from '../support/encode-datastore.ts';
import { allRights } from '../support/pbs-server/access.ts';
import { startProxy } from '../support/pbs-server/proxy.ts';
import { PbsServer } from '../support/pbs-server/server.ts';
import { needs } from '../support/requirements.ts';
import { logins, mountServer } from '../support/server-mount.ts';

const secret = `p+a&s%25=w#"r' $!\\ü`;
const user = 'jörg@mail@pbs';
const config = Buffer.from('cores: 2\n');
const path = 'vm/100/latest/qemu-server.conf';
const store = temporaryDatastore();
const folder = mkdtempSync(join(tmpdir(), 'pbsfs-login-'));
const root = '/datastore/store1';
const ca = fileURLToPath(new URL('../support/pbs-server/certificates/ca.pem', import.meta.url));
let server: PbsServer;

before(async () => {
  const blobs = { 'qemu-server.conf': config };
  const images = { 'drive-scsi0.img': Buffer.alloc(100_000, 'image') };
  const time = 1_700_000_000;
  writeSnapshot(store.path, { group: 'vm/100', time, images, blobs });
  writeSnapshot(store.path, { group: 'ns/a/vm/200', time, images, blobs, key: vectorKey });
  const accounts = [
    ...Object.values(logins),
    { authId: user, secret, acl: { '/': allRights } },
    { authId: 'list@pbs', secret, acl: { [root]: ['Datastore.Audit'] } },
  ];
  server = await PbsServer.start({ directory: store.path, accounts });
});
after(async () => {
  await server[Symbol.asyncDispose]();
  store[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

interface Call {
  readonly env?: NodeJS.ProcessEnv;
  readonly wrapper?: readonly string[];
  readonly authId?: string;
}

/** With repository and fingerprint, and no secret. */
async function pbsfs(args: readonly string[], call: Call = {}): Promise<CliResult> {
  const { env, wrapper = [], authId = user } = call;
  const known = {
    PBS_REPOSITORY: `${authId}@127.0.0.1:${server.port}:store1`,
    PBS_FINGERPRINT: server.fingerprint,
  };
  return await runCli(args, { env: { ...known, ...env }, wrapper });
}

async function assertReads(call: Call, args: readonly string[] = ['cat', path]): Promise<void> {
  const { stdout, stderr } = await pbsfs(args, call);
  assert.equal(stderr, '');
  assert.ok(stdout.equals(config));
}

/** A file below the folder of this test. */
function write(name: string, content: string): string {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
  return file;
}

describe('a password', () => {
  const rest = '\nwrong, and a comment\n';

  test('comes from the environment, from a descriptor, a file, a command or systemd', async () => {
    const file = write('password', secret + rest);
    const credentials = dirname(write('credentials/proxmox-backup-client.password', secret));
    const ways: readonly Call[] = [
      { env: { PBS_PASSWORD: secret + rest } },
      {
        env: { PBS_PASSWORD_FD: '7', FILE: file },
        wrapper: ['sh', '-c', 'exec "$@" 7< "$FILE"', 'sh'],
      },
      { env: { PBS_PASSWORD_FILE: file } },
      { env: { PBS_PASSWORD_CMD: `cat '${file}'` } },
      { env: { CREDENTIALS_DIRECTORY: credentials } },
    ];
    await Promise.all(ways.map((call) => assertReads(call)));
  });

  test('is the first that is given, and an error where that one is unusable', async () => {
    const file = write('wrong-password', 'wrong');
    await assertReads({ env: { PBS_PASSWORD: secret, PBS_PASSWORD_FILE: file } });
    const env = { PBS_PASSWORD_FD: '99', PBS_PASSWORD_CMD: `cat '${file}'` };
    const { code, stderr } = await pbsfs(['ls'], { env });
    assert.equal(code, 2);
    assert.match(stderr, /^pbsfs: ls: PBS_PASSWORD_FD cannot be read: EBADF/);
  });
});

describe('a certificate', () => {
  const env = { PBS_PASSWORD: secret };

  test('is accepted by its fingerprint in any form', async () => {
    const colons = server.fingerprint;
    await assertReads({ env: { ...env, PBS_FINGERPRINT: colons.replaceAll(':', '') } });
    const wrong = { ...env, PBS_FINGERPRINT: '00'.repeat(32) };
    await assertReads({ env: wrong }, ['cat', '--fingerprint', colons.toLowerCase(), path]);
  });

  test('of another fingerprint ends everything before a request is written', async () => {
    const written = server.requests.length;
    const fingerprint = 'AB'.repeat(32);
    const shown = (text: string): string => (text.match(/../g) ?? []).join(':').toLowerCase();
    const given = { ...env, PBS_FINGERPRINT: fingerprint };
    const wrong = await pbsfs(['cat', path], { env: given });
    assert.equal(wrong.code, 4);
    assert.ok(wrong.stderr.includes(`expected is ${shown(fingerprint)}`), wrong.stderr);
    assert.ok(wrong.stderr.includes(`has fingerprint ${server.fingerprint.toLowerCase()}`));
    const { code, stderr } = await pbsfs(['ls'], { env: { ...env, PBS_FINGERPRINT: undefined } });
    assert.equal(code, 4);
    assert.match(stderr, /self-signed; its fingerprint is .*--fingerprint or PBS_FINGERPRINT/);
    assert.equal(server.requests.length, written);
  });

  test('that a known CA has signed needs none', async () => {
    await using signed = await PbsServer.start({
      directory: store.path,
      certificate: 'ca-signed',
      accounts: Object.values(logins),
    });
    const { authId, secret: password } = logins.token;
    const { code, stdout, stderr } = await runCli(['cat', path], {
      env: {
        PBS_REPOSITORY: `${authId}@localhost:${signed.port}:store1`,
        PBS_PASSWORD: password,
        NODE_EXTRA_CA_CERTS: ca,
      },
    });
    assert.equal(stderr, '');
    assert.equal(code, 0);
    assert.ok(stdout.equals(config));
  });
});

test('a proxy carries listings and sessions', async () => {
  await using through = await startProxy(server.port, 'me:p@ss');
  const proxy = `http://me:p%40ss@127.0.0.1:${through.proxy.port}`;
  const env = { PBS_PASSWORD: secret, ALL_PROXY: proxy };
  const before = server.connections;
  const { code, stdout } = await pbsfs(['cat', 'vm/100/latest/drive-scsi0.img'], { env });
  assert.equal(code, 0);
  assert.equal(stdout.length, 100_000);
  assert.equal(through.requests.length, server.connections - before);
  assert.ok(through.requests.length >= 2);
  const wrong = { ...env, ALL_PROXY: proxy.replace('p%40ss', 'hunter2') };
  const refused = await pbsfs(['ls'], { env: wrong });
  assert.equal(refused.code, 4);
  assert.match(refused.stderr, /proxy 127\.0\.0\.1:\d+ wants a user and password/);
  assert.equal(refused.stderr.includes('hunter2'), false);
});

describe('what others have configured', () => {
  test('the ticket and the fingerprint that proxmox-backup-client has stored', async () => {
    const ticket = server.access.login(user, secret);
    const timestamp = Math.floor(Date.now() / 1000);
    const tickets = { '127.0.0.1': { [user]: { timestamp, ticket, token: 'csrf' } } };
    write('runtime/proxmox-backup/tickets', JSON.stringify(tickets));
    write('home/.config/proxmox-backup/fingerprints', `127.0.0.1 ${server.fingerprint}\n`);
    const env = {
      PBS_FINGERPRINT: undefined,
      XDG_RUNTIME_DIR: join(folder, 'runtime'),
      HOME: join(folder, 'home'),
    };
    const before = server.count('login');
    await assertReads({ env });
    assert.equal(server.count('login'), before);
  });

  test('a storage of a PVE host, with its password, namespace and key', {
    skip: needs('root', 'unshare'),
  }, async () => {
    write(
      'etc/pve/storage.cfg',
      `dir: local
	path /var/lib/vz

pbs: backups
	datastore store1
	server 127.0.0.1
	port ${server.port}
	fingerprint ${server.fingerprint.toLowerCase()}
	username ${user}
	namespace a
`,
    );
    write('etc/pve/priv/storage/backups.pw', `${secret}\n`);
    const key = { kdf: null, created: '', modified: '', data: vectorKey.toString('base64') };
    write('etc/pve/priv/storage/backups.enc', JSON.stringify(key));
    const wrapper = ['unshare', '-m', 'sh', '-c', 'mount --bind "$ETC" /etc && exec "$@"', 'sh'];
    // What the environment says of another server counts less.
    const env = {
      ETC: join(folder, 'etc'),
      PBS_REPOSITORY: 'elsewhere:other',
      PBS_FINGERPRINT: undefined,
    };
    const args = ['cat', '--pve-storage', 'backups', 'vm/200/latest/qemu-server.conf'];
    await assertReads({ env, wrapper }, args);
    const absent = await pbsfs(['ls', '--pve-storage', 'local'], { env, wrapper });
    assert.equal(absent.code, 3);
    assert.match(absent.stderr, /no storage 'local' of type pbs is configured: there are backups/);
  });
});

describe('doctor', () => {
  async function failureOf(repository: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
    const result = await pbsfs(['doctor', '--json', repository], {
      env: { PBS_PASSWORD: secret, ...env },
    });
    const checks = JSON.parse(result.stdout.toString()) as Record<string, string>[];
    const failed = checks.filter(
      ({ name, status }) => status === 'fail' && /^server/.test(name ?? ''),
    );
    assert.equal(failed.length, 1);
    assert.equal(failed[0], checks.at(-1), 'it is the last step');
    const { name, detail, hint } = failed[0] ?? {};
    return `${result.code} ${name}: ${detail} (${hint})`;
  }

  test('says which step fails, and how to mend it', async () => {
    const place = `127.0.0.1:${server.port}`;
    const { none } = logins;
    const rows: readonly (readonly [string, NodeJS.ProcessEnv, RegExp])[] = [
      [
        `${user}@no-such-host.invalid:store1`,
        {},
        /^7 server name: .*invalid.* \(check the host name/,
      ],
      [
        `${user}@127.0.0.1:1:store1`,
        {},
        /^7 server port: 127\.0\.0\.1:1: .* \(check host and port.*8007/,
      ],
      [
        `${user}@${place}:store1`,
        { PBS_FINGERPRINT: '12'.repeat(32) },
        /^4 server certificate: .*12:12:12.*dashboard/,
      ],
      [
        `${user}@${place}:store1`,
        { PBS_PASSWORD: 'wrong' },
        /^4 server login: .*jörg@mail@pbs.* \(check user, realm and password/,
      ],
      [
        `${none.authId}@${place}:store1`,
        { PBS_PASSWORD: 'wrong' },
        /^4 server login: .*!none.* \(check the secret of the token/,
      ],
      [
        `${none.authId}@${place}:store1`,
        { PBS_PASSWORD: none.secret },
        /^4 server rights: .*!none is logged in and lacks Datastore\.Audit on \/datastore\/store1 \(grant/,
      ],
      [
        `${user}@${place}:nowhere`,
        {},
        /^3 server rights: datastore 'nowhere' does not exist.*visible: store1 \(check its name/,
      ],
      [
        `list@pbs@${place}:store1`,
        {},
        /^4 server chunk: .*lacks Datastore\.Read on \/datastore\/store1 \(grant/,
      ],
    ];
    await Promise.all(
      rows.map(async ([repository, env, expected]) => {
        assert.match(await failureOf(repository, env), expected);
      }),
    );
  });
});

describe('a terminal', { skip: needs('python3') }, () => {
  /** Runs a command on a terminal of its own and types the answers, one for each question. */
  const typing = `
import os, pty, sys, json
answers = json.loads(sys.argv[1])
pid, fd = pty.fork()
if pid == 0: os.execvp(sys.argv[2], sys.argv[2:])
seen = b''
while True:
    try: part = os.read(fd, 4096)
    except OSError: break
    if not part: break
    seen += part
    if answers and answers[0][0].encode() in seen:
        os.write(fd, answers.pop(0)[1].encode() + b'\\n')
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(status))
`;

  async function typed(answers: readonly (readonly [question: string, string])[], call: Call = {}) {
    const wrapper = ['python3', '-c', typing, JSON.stringify(answers)];
    const { code, stdout } = await pbsfs(['cat', path], { ...call, wrapper });
    return { code, shown: stdout.toString() };
  }

  test('is asked for the password, which it does not show', async () => {
    const { code, shown } = await typed([[`Password for ${user}: `, secret]]);
    assert.equal(code, 0, shown);
    assert.ok(shown.includes(config.toString().trimEnd()));
    assert.equal(shown.includes(secret), false);
  });

  test('may confirm a certificate, by yes alone', async () => {
    const env = { PBS_PASSWORD: secret, PBS_FINGERPRINT: undefined };
    const question = 'Connect all the same? (yes/no) ';
    const confirmed = await typed([[question, 'yes']], { env });
    assert.equal(confirmed.code, 0, confirmed.shown);
    assert.ok(confirmed.shown.includes(`Its fingerprint: ${server.fingerprint.toLowerCase()}`));
    const written = server.requests.length;
    const refused = await typed([[question, 'y']], { env });
    assert.equal(refused.code, 4);
    assert.equal(server.requests.length, written);
  });
});

test('a mount in the background takes its password from a descriptor', {
  skip: needs('fuse', 'root'),
}, async () => {
  await using point = await temporaryMountPoint();
  const file = write('daemon-password', `${secret}\n`);
  const env = { PBS_PASSWORD_FD: '7', FILE: file };
  const wrapper = ['sh', '-c', 'exec "$@" 7< "$FILE"', 'sh'];
  const { code, stderr } = await pbsfs(['mount', '--daemon', point.path], { env, wrapper });
  assert.equal(stderr, '');
  assert.equal(code, 0);
  assert.ok((await readFile(join(point.path, path))).equals(config));
  assert.equal((await pbsfs(['umount', point.path])).code, 0);
});

test('no secret shows in output, logs, traces or the process table', {
  skip: needs('fuse', 'root'),
}, async () => {
  await using through = await startProxy(server.port, 'me:hunter2');
  const env = {
    PBS_REPOSITORY: `${user}@127.0.0.1:${server.port}:store1`,
    PBS_PASSWORD: secret,
    ALL_PROXY: `http://me:hunter2@127.0.0.1:${through.proxy.port}`,
    PBS_ENCRYPTION_PASSWORD: 'key-passphrase',
    DEBUG: 'pbsfs:*',
  };
  const log = join(folder, 'log');
  await using mount = await mountServer(server, ['-v', '--log-file', log], { env });
  const { pid = 0 } = mount.served.child;
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8');
  assert.ok((await readFile(mount.at(path))).equals(config));
  const cat = await pbsfs(['cat', '-v', 'vm/100/latest/drive-scsi0.img'], { env });
  assert.equal(cat.code, 0);
  assert.match(cat.stderr, /pbsfs:pbs GET \/api2\/json\/admin\/datastore\/store1\/groups/);
  const refused = await pbsfs(['ls', '-v'], { env: { ...env, PBS_PASSWORD: `${secret}x` } });
  assert.equal(refused.code, 4);
  const token = {
    ...env,
    PBS_REPOSITORY: `${logins.token.authId}@127.0.0.1:${server.port}:store1`,
  };
  const unknown = await pbsfs(['ls', '-v'], { env: { ...token, PBS_PASSWORD: secret } });
  assert.equal(unknown.code, 4);
  assert.equal(await mount.served.stop('SIGTERM'), 0);
  const written = [
    ...[cat, refused, unknown].flatMap(({ stdout, stderr }) => [stdout.toString(), stderr]),
    ...[commandLine, mount.served.stdout, mount.served.stderr, await readFile(log, 'utf8')],
  ].join('\n');
  const forms = (text: string): string[] => [
    text,
    encodeURIComponent(text),
    JSON.stringify(text).slice(1, -1),
    Buffer.from(text).toString('base64'),
  ];
  for (const hidden of [secret, 'hunter2', 'me:hunter2', 'key-passphrase'].flatMap(forms)) {
    assert.equal(written.includes(hidden), false, hidden);
  }
  assert.doesNotMatch(written, /PBS:|PBSAuthCookie|PBSAPIToken|authorization/i);
});
