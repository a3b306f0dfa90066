import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findProgram, runProgram } from '../../src/fuse/system-program.ts';
import { temporaryDirectory } from '../support/mount-fixture.ts';

test('finds programs of the system where mount(8) has removed PATH', async () => {
  const path = process.env['PATH'];
  try {
    delete process.env['PATH'];
    assert.match((await findProgram('sh')) ?? '', /^\/(usr\/)?bin\/sh$/);
    assert.equal(await findProgram('no-such-program'), undefined);
  } finally {
    process.env['PATH'] = path;
  }
});

test('gives status and message of a program in one line', async () => {
  const finished = await runProgram('/bin/sh', ['-c', 'echo one >&2; echo " two" >&2; exit 3']);
  assert.deepEqual(finished, { status: 3, message: 'one; two' });
});

test('hands over a descriptor and nothing of the environment', async () => {
  await using directory = await temporaryDirectory();
  const file = join(directory.path, 'written');
  const descriptor = openSync(file, 'w');
  process.env['PBS_PASSWORD'] = 'secret';
  try {
    await runProgram('/bin/sh', ['-c', 'env >&3'], { descriptor, env: { GIVEN: 'yes' } });
  } finally {
    delete process.env['PBS_PASSWORD'];
    closeSync(descriptor);
  }
  const environment = readFileSync(file, 'utf8');
  assert.match(environment, /^GIVEN=yes$/m);
  assert.doesNotMatch(environment, /secret/);
});

test('says which program it cannot run', async () => {
  await assert.rejects(runProgram('/no/such/program', []), {
    code: 'unsupported',
    message: 'cannot run /no/such/program',
  });
});
