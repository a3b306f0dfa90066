/** The golden datastore on a server, by `cat` and in mounts: the same bytes and fields as from its directory. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { formatTreePath } from '../../src/tree/tree-path.ts';
import { temporaryMountPoint } from '../cli/mounted.ts';
import { goldenPassphrase, goldenStore } from '../support/golden.ts';
import { goldenKeyArgs, type StoreMount } from '../support/golden-mount.ts';
import {
  assertArchives,
  assertSums,
  type Shown,
  shownArchives,
  shownFiles,
} from '../support/golden-shown.ts';
import { PbsServer } from '../support/pbs-server/server.ts';
import { expectedListing } from '../support/pxar-listing.ts';
import { needs } from '../support/requirements.ts';
import { logins, mountServer, runOnServer, type ServerCall } from '../support/server-mount.ts';

const skip = needs('golden');
const skipMounts = needs('golden', 'fuse', 'root', 'python3');
const timeout = 120_000;
const env = { PBS_ENCRYPTION_PASSWORD: goldenPassphrase };
const alpha = 'host/alpha/2023-11-14T22:13:20Z/root.pxar';

describe('the golden datastore on a server', { skip, timeout }, () => {
  let server: PbsServer;
  before(async () => {
    server = await PbsServer.start({ directory: goldenStore, accounts: Object.values(logins) });
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
  });

  const pbsfs = (args: readonly string[], call: ServerCall = {}) => runOnServer(server, args, call);

  async function sumsByCat(paths: readonly Shown[], call: ServerCall): Promise<string[]> {
    const args = ['cat', ...goldenKeyArgs, ...paths.map(({ path }) => path)];
    const { code, stdout, stderr } = await pbsfs(args, { env, ...call });
    assert.equal(stderr, '');
    assert.equal(code, 0);
    let end = 0;
    return paths.map(({ size }) => {
      end += size;
      return hash('sha256', stdout.subarray(end - size, end));
    });
  }

  test('cat gives every image and blob as the real client restored it', async () => {
    const files = shownFiles();
    assert.ok(files.length > 40 && files.some(({ path }) => path.startsWith('vm/200/')));
    const sums = await sumsByCat(files, { login: 'user' });
    for (const [index, { path, sha256 }] of files.entries())
      assert.equal(sums[index], sha256, path);
  });

  test('cat gives every file of an archive', async () => {
    const files = expectedListing('pxar-alpha-v1.json').flatMap((entry): Shown[] => {
      const { path_b64: path, size = 0, sha256 } = entry;
      const names = Buffer.from(path, 'base64').toString('latin1').split('/');
      const inTree = [...alpha.split('/'), ...names].map((name) => Buffer.from(name, 'latin1'));
      return sha256 === undefined ? [] : [{ path: formatTreePath(inTree), size, sha256 }];
    });
    assert.ok(files.length > 3000);
    const sums = await sumsByCat(files, { login: 'token' });
    for (const [index, { path, sha256 }] of files.entries())
      assert.equal(sums[index], sha256, path);
  });

  for (const login of ['user', 'token'] as const) {
    describe(`in a mount by a ${login}`, { skip: skipMounts }, () => {
      let mount: StoreMount;
      before(async () => {
        mount = await mountServer(server, goldenKeyArgs, { login, env });
      });
      after(async () => {
        await mount[Symbol.asyncDispose]();
      });

      test('images and blobs are what the real client restored', async () => {
        const some = login === 'token' ? /./ : /^(vm\/200|ns)\//;
        await assertSums(
          mount,
          shownFiles().filter(({ path }) => some.test(path)),
        );
      });

      test('archives are what the real client restored, in every field', async () => {
        // All of them: test/slow/server-golden-all.test.ts.
        const some = login === 'token' ? /^host\/(alpha\/2023-11-14|splitenc)/ : /^(host\/enc|ct)/;
        const archives = [...shownArchives()].filter(([path]) => some.test(path));
        assert.ok(archives.length > 1);
        await assertArchives(mount, new Map(archives));
        assert.equal(mount.served.stderr, '');
      });
    });
  }

  describe('to a token that may only see one namespace', { skip: skipMounts }, () => {
    const isInNamespace = ({ path }: { readonly path: string }): boolean =>
      path.startsWith('ns/ns1/');

    test('shows that namespace, whole, and nothing else', async () => {
      await using mount = await mountServer(server, [], { login: 'ns1' });
      assert.deepEqual(await readdir(mount.path), ['ns']);
      assert.deepEqual(await readdir(mount.at('ns')), ['ns1']);
      const files = shownFiles().filter(isInNamespace);
      assert.ok(files.length > 3);
      await assertSums(mount, files);
      const archives = [...shownArchives()].filter(([path]) => isInNamespace({ path }));
      await assertArchives(mount, new Map(archives));
      await assert.rejects(readdir(mount.at('vm')), { code: 'ENOENT' });
    });

    test('is left to it by --ns', async () => {
      const call = { login: 'ns1' } as const;
      const inside = await pbsfs(['ls', '--ns', 'ns1'], call);
      assert.equal(inside.stdout.toString(), 'host\nns\nvm\n');
      const absent = await pbsfs(['ls', 'vm/100'], call);
      assert.equal(absent.code, 3);
      const elsewhere = await pbsfs(['ls', '--ns', 'other'], call);
      assert.equal(elsewhere.code, 3);
      assert.match(elsewhere.stderr, /namespace 'other' does not exist/);
    });
  });

  test('to a token without rights says who is logged in and which right is missing where', async () => {
    await using point = await temporaryMountPoint();
    const commands = [['ls'], ['cat', 'vm/100/qemu-server.conf'], ['mount', point.path]];
    for (const args of skipMounts ? commands.slice(0, 2) : commands) {
      const { code, stdout, stderr } = await pbsfs(args, { login: 'none' });
      assert.equal(code, 4, stderr);
      assert.equal(stdout.length, 0);
      assert.match(
        stderr,
        /^pbsfs: .*reader@pbs!none is logged in and lacks Datastore\.Audit on \/datastore\/store1 \(.*DatastoreReader.*\)\n$/,
      );
    }
  });
});
