/** How a mount begins and ends, whichever driver makes it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, stat } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { mountsAt, mountTestTree, tool } from '../support/mount-fixture.ts';
import { needs } from '../support/requirements.ts';
import type { SuiteOptions } from './mount-suite.ts';

export function mountLifeSuite({ driver, requirements }: SuiteOptions): void {
  const skip = needs('fuse', 'root', ...requirements);
  describe(`the life of a mount by ${driver}`, { skip, timeout: 60_000 }, () => {
    test('ends with status 0 when it is unmounted from outside', async () => {
      await using mount = await mountTestTree({ driver });
      const unmounted = await tool('umount', mount.path);
      assert.equal(unmounted.status, 0, unmounted.stderr);
      assert.equal(await mount.ended(), 0);
    });

    test('is busy while somebody stands in it, and leaves all the same when told so', async () => {
      await using mount = await mountTestTree({ driver });
      const holder = spawn('sleep', ['60'], { cwd: mount.path, stdio: 'ignore' });
      try {
        await once(holder, 'spawn');
        assert.equal(await mount.command('unmount'), 'busy');
        assert.equal(await readFile(mount.at('hello.txt'), 'utf8'), 'hello, world\n');
        assert.equal(await mount.command('unmount-lazy'), 'unmounted');
        assert.equal(await mount.ended(), 0);
        assert.deepEqual(await readdir(mount.path), []);
        assert.equal(await mountsAt(mount.path), 0);
      } finally {
        holder.kill();
      }
    });

    test('is cleared by the next one when its process was killed', async () => {
      await using first = await mountTestTree({ driver });
      await first.crash();
      await assert.rejects(readdir(first.path), { code: 'ENOTCONN' });
      await using second = await mountTestTree({ driver, mountPoint: first.path });
      assert.equal(await readFile(second.at('hello.txt'), 'utf8'), 'hello, world\n');
      assert.equal(await mountsAt(second.path), 1);
    });

    test('is named in the table by its source, whatever characters that has', async () => {
      const source = 'root@pam!to,ken@[fe80::1]:8007:a\\b c';
      await using mount = await mountTestTree({ driver, source });
      const listed = await tool('findmnt', '-n', '-o', 'SOURCE,FSTYPE,OPTIONS', mount.path);
      const text = listed.stdout.toString();
      assert.ok(text.startsWith(source), text);
      assert.match(text, /fuse\.pbsfs/);
      for (const option of ['ro', 'nosuid', 'nodev'])
        assert.match(text, new RegExp(`\\b${option}\\b`));
    });

    test('shows other owners and fewer permissions when told so', async () => {
      const overrides = { uid: 7, gid: 8, umask: 0o027 };
      await using mount = await mountTestTree({ driver, overrides });
      const { uid, gid, mode } = await stat(mount.at('hello.txt'));
      assert.deepEqual([uid, gid, mode], [7, 8, 0o100640]);
    });
  });
}
