import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { needs } from '../support/requirements.ts';

const program = fileURLToPath(new URL('../../bin/pbsfs.js', import.meta.url));

function temporaryHome(context: TestContext): string {
  const home = mkdtempSync(join(tmpdir(), 'pbsfs-home-'));
  context.after(() => rmSync(home, { recursive: true }));
  return home;
}

function start(env: NodeJS.ProcessEnv): void {
  const { PATH } = process.env;
  execFileSync(process.execPath, [program, '--version'], { env: { PATH, ...env }, stdio: 'pipe' });
}

test('what was compiled is kept below the home of the user', (t) => {
  const home = temporaryHome(t);
  start({ HOME: home });
  assert.ok(existsSync(join(home, '.cache/pbsfs/compiled')));
  start({ HOME: home });
});

test('XDG_CACHE_HOME and NODE_COMPILE_CACHE say where', (t) => {
  const home = temporaryHome(t);
  start({ HOME: home, XDG_CACHE_HOME: join(home, 'x') });
  assert.ok(existsSync(join(home, 'x/pbsfs/compiled')));
  start({ HOME: home, NODE_COMPILE_CACHE: join(home, 'y') });
  assert.ok(existsSync(join(home, 'y')));
  assert.ok(!existsSync(join(home, '.cache')));
});

test('without a home, or in one that cannot be written, nothing is kept and nothing fails', () => {
  start({});
  start({ HOME: '/proc' });
  start({ HOME: '/nowhere' });
});

test('nothing is kept in the home of somebody else', { skip: needs('root') }, (t) => {
  const home = temporaryHome(t);
  chownSync(home, 65_534, 65_534);
  start({ HOME: home });
  assert.ok(!existsSync(join(home, '.cache')));
});
