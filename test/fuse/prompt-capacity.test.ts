import assert from 'node:assert/strict';
import { test } from 'node:test';
import { promptCapacity } from '../../src/fuse/prompt-capacity.ts';

const unknown = { total: 0, used: 0, available: 0 };

test('space is told as it is, and as it was while nobody answers', async () => {
  const answers = [{ total: 10, used: 4, available: 6 }, new Error('away')];
  let asked = 0;
  const capacity = promptCapacity(async () => {
    const answer = answers[asked];
    asked += 1;
    if (answer instanceof Error) throw answer;
    return answer ?? (await new Promise(() => {}));
  });
  for (let i = 0; i < 4; i += 1) assert.deepEqual(await capacity(), answers[0]);
  assert.equal(asked, 3, 'what is asked already is not asked again');
});

test('space that nobody tells is unknown, soon', async () => {
  const started = performance.now();
  assert.deepEqual(await promptCapacity(() => new Promise(() => {}))(), unknown);
  assert.ok(performance.now() - started < 3000);
});
