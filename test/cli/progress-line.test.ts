import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { formatBytes, ProgressLine } from '../../src/cli/progress-line.ts';

/** What is written to standard error from now on, and whether that is a terminal. */
function standardError(t: TestContext, isTerminal: boolean): { text: string } {
  const written = { text: '' };
  const { isTTY } = process.stderr;
  process.stderr.isTTY = isTerminal;
  t.after(() => {
    process.stderr.isTTY = isTTY;
  });
  t.mock.method(process.stderr, 'write', (text: string) => {
    written.text += text;
    return true;
  });
  return written;
}

test('without a terminal there is a line for each twentieth of the way, and only if asked for', (t) => {
  const written = standardError(t, false);
  const all = (progress: ProgressLine): void => {
    for (let i = 1; i <= 1000; i += 1) progress.update(() => `${i} of 1000`, i / 1000);
  };
  all(new ProgressLine({ asked: false, quiet: false }));
  assert.equal(written.text, '');
  all(new ProgressLine({ asked: true, quiet: false }));
  const lines = Array.from({ length: 20 }, (_, i) => `${(i + 1) * 50} of 1000\n`);
  assert.equal(written.text, lines.join(''));
});

test('a job of one step has one line', (t) => {
  const written = standardError(t, false);
  new ProgressLine({ asked: true, quiet: false }).update(() => 'done', 1);
  assert.equal(written.text, 'done\n');
});

test('on a terminal the line is written anew, ten times a second at most, and taken away', (t) => {
  const written = standardError(t, true);
  const progress = new ProgressLine({ asked: false, quiet: false });
  for (let i = 0; i < 1000; i += 1) progress.update(() => `${i}`, i / 1000);
  assert.equal(written.text, '\r\x1b[K0');
  progress[Symbol.dispose]();
  progress[Symbol.dispose]();
  assert.equal(written.text, '\r\x1b[K0\r\x1b[K');
});

test('jobs that run at once share the line, and the one that ends first takes it away', (t) => {
  const written = standardError(t, true);
  const progress = new ProgressLine({ asked: false, quiet: false });
  const [first, second] = [progress.labelled('a.img'), progress.labelled('b.img')];
  first.update(() => '10 %', 0.1);
  second.update(() => '20 %', 0.2);
  first[Symbol.dispose]();
  assert.equal(written.text, '\r\x1b[Ka.img: 10 %\r\x1b[Kb.img: 20 %\r\x1b[K');
});

test('quiet is quiet', (t) => {
  const written = standardError(t, true);
  new ProgressLine({ asked: false, quiet: true }).update(() => 'x', 1);
  assert.equal(written.text, '');
});

test('bytes are given in the unit that fits', () => {
  assert.deepEqual([0, 1023, 1024, 21_600_000, 2 ** 40].map(formatBytes), [
    '0 B',
    '1023 B',
    '1.0 KiB',
    '20.6 MiB',
    '1.0 TiB',
  ]);
});
